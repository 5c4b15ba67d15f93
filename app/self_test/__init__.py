"""`Slipstream --self-test`: does everything work on this machine?"""
