"""The exercises of the five lessons: for each a file for students, a solution, its points, and a note for the teacher.

``attnzoo assignment LESSON FOLDER`` writes them out. Its files are as students get them: they import only torch.
"""
