"""`Slipstream --self-test`: does all of it work on this machine?"""
