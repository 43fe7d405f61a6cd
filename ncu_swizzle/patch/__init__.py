"""Write a mapping of a shared array into its source, as a person would. The candidates, their spellings, and what of
the source has to be known for them.
"""
