"""Rows in the order of their sequence numbers: ascending runs, and their merge. Pure.

What arrives from parallel tasks is ascending for long stretches. Cutting it there and merging only what overlaps costs
a fraction of a sort, and is right whatever the tasks did: a plan that breaks order makes more runs, never a wrong
result. Needs numpy, and nothing of the project.
"""
