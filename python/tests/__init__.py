"""Tests of the wheel. `cargo xtask python` runs them."""
