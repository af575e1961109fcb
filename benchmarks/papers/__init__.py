"""The papers' tables and figures, on their datasets or on any other: rows, measurements and the published figures."""
