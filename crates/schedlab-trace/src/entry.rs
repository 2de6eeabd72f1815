//! What to do with the records of one event id.

/// A number in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) at: u16,
    pub(crate) size: u8,
}

/// A task's name in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameSlot {
    /// 16 bytes in place.
    Fixed(u16),
    /// Fewer or more bytes in place.
    Array(u16, u16),
    /// A number at `.0` says where; `.1` is added to the offset that it gives.
    Elsewhere(u16, u16),
    /// The format has none.
    Absent,
}

/// What to do with records of one event id.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    Switch {
        prev: Slot,
        prev_prio: Slot,
        prev_state: Slot,
        prev_comm: NameSlot,
        next: Slot,
        next_prio: Slot,
        next_comm: NameSlot,
    },
    Waking {
        pid: Slot,
        prio: Slot,
        cpu: Slot,
        comm: NameSlot,
    },
    Wakeup {
        pid: Slot,
        prio: Slot,
        cpu: Slot,
        comm: NameSlot,
        success: Option<Slot>,
        new: bool,
    },
    Migrate {
        pid: Slot,
        from: Slot,
        to: Slot,
        comm: NameSlot,
    },
    Fork {
        child: Slot,
        comm: NameSlot,
    },
    Exec {
        old: Slot,
    },
    Exit {
        pid: Slot,
        comm: NameSlot,
    },
    Mark {
        pid: Slot,
        mark: Slot,
        phase: Slot,
        /// Recordings of earlier versions have none.
        request: Option<Slot>,
    },
    Rename {
        pid: Slot,
        comm: NameSlot,
    },
    /// A step on a CPU's way into or out of use.
    Hotplug {
        cpu: Slot,
        target: Slot,
    },
    Other,
}

/// A plan, how long a record must be for it, and its place in [`others`](crate::plan::Decoder::others).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) plan: Plan,
    pub(crate) need: u16,
    pub(crate) other: u16,
}
