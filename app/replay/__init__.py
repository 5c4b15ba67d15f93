"""Answers as they ran: played again, on the first page, and in a race."""
