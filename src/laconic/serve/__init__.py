"""The HTTP service: a packed model behind a door that hostile, slow and too many clients do not get past.

A request comes in through door.py, is read as a question (questions.py), waits in a queue (batching.py), is answered by
the model of the moment (serving.py), and leaves as JSON. running.py starts and stops all of it; app.py has the rest of
the paths. Nothing here knows how an answer is computed.
"""
