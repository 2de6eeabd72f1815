"""Pictures are those of the command, and a notebook shows them."""

import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

import schedlab

from .made import folder, said, trace


class Plot(unittest.TestCase):
    def test_each_picture_is_the_one_of_the_command(self):
        read = schedlab.read(trace())
        for kind in ("cores", "tasks", "waiting", "latency", "wakeup"):
            path = Path(folder()) / f"{kind}.svg"
            said("draw", kind, str(trace()), "--output", str(path), "--width=700")
            picture = getattr(read.plot, kind)(width=700)
            self.assertEqual(picture._repr_svg_(), path.read_text(encoding="utf-8"), kind)
            self.assertIn("late.dat", picture.caption)
            self.assertEqual(picture.save(Path(folder()) / "saved.svg").read_text(encoding="utf-8"), picture.svg)

    def test_a_part_is_drawn_as_it_was_read_at_its_size(self):
        part = schedlab.read(trace(), start="20ms", end="30ms")
        picture = part.plot.tasks(width_mm=85, grey=True)
        self.assertIn("from 20.0 ms to 30.0 ms", picture.caption)
        width_px = float(xml.fromstring(picture.svg).attrib["width"])
        self.assertAlmostEqual(width_px / 96 * 25.4, 85, delta=0.5)

    def test_an_option_that_is_not_there_is_an_error_in_the_words_of_the_command(self):
        with self.assertRaisesRegex(ValueError, "--moon"):
            schedlab.read(trace()).plot.cores(moon=1)


if __name__ == "__main__":
    unittest.main()
