"""The report: what all agents of a repository did, and how they stand to each other.

lanes       what each agent did, as marks by time
merges      whose work went into which merge
collection  `report`: the lanes, the conflicts, the storage and the runs
"""
