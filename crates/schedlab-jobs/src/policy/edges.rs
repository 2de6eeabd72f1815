//! Lists of successors, all in one table whose freed cells are used again.

use super::JobId;

/// The index that ends a list.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Cell {
    to: JobId,
    next: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Edges {
    cells: Vec<Cell>,
    free: u32,
}

impl Edges {
    pub(super) fn new() -> Self {
        Self { cells: Vec::new(), free: NONE }
    }

    /// Puts `to` in front of the list `first`; the new list.
    pub(super) fn add(&mut self, first: u32, to: JobId) -> u32 {
        let cell = Cell { to, next: first };
        if self.free == NONE {
            self.cells.push(cell);
            return self.cells.len() as u32 - 1;
        }
        let at = self.free;
        self.free = self.cells[at as usize].next;
        self.cells[at as usize] = cell;
        at
    }

    /// Takes the first of a list and frees its cell: that and the rest.
    pub(super) fn take(&mut self, list: u32) -> Option<(JobId, u32)> {
        if list == NONE {
            return None;
        }
        let Cell { to, next } = self.cells[list as usize];
        self.cells[list as usize].next = self.free;
        self.free = list;
        Some((to, next))
    }

    /// How many cells were ever needed at once.
    pub(super) fn capacity(&self) -> usize {
        self.cells.len()
    }
}
