"""The commands, one thin file each: parse, call one function, print.

What a command needs beyond typer is imported when it runs, so that help and mistakes answer at once.
"""
