//! The tasks that wait on overloaded CPUs, by the CPUs that they may use.
//!
//! Such a task's violation is open exactly while a CPU that it may use is free. That is one question for
//! all tasks of a class, so each class counts its free CPUs, and its tasks are looked at only when the
//! count leaves zero or comes back to it, which begins or ends a violation of each.

use super::allowed::{ClassId, UNKNOWN};
use crate::task::TaskId;
use schedlab_model::{Cpu, CpuSet, Nanos};

/// A violation that has not ended.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) start: Nanos,
    /// What its class had been served when it began.
    pub(super) served: u128,
}

/// What a task that is stuck counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is chosen: its waits make episodes.
    Counts,
    /// It only competes with those that are chosen.
    Competes,
    /// A kernel thread that belongs to its CPU: no other CPU could serve it.
    Bound,
}

/// A task that waits on an overloaded CPU.
#[derive(Debug)]
pub(super) struct Stuck {
    pub(super) task: TaskId,
    pub(super) cpu: Cpu,
    pub(super) role: Role,
    /// Whether another CPU could serve it, so that it competes for free ones.
    pub(super) competes: bool,
    /// Since when it waits, if it is a kernel thread that belongs to its CPU.
    pub(super) bound_since: Option<Nanos>,
    pub(super) open: Option<Open>,
}

/// Those that may use the same CPUs.
#[derive(Debug, Default)]
struct Class {
    /// How many of those CPUs are free.
    free: u32,
    /// Whether violations of its tasks are open.
    is_open: bool,
    tasks: Vec<Stuck>,
}

/// The waiting tasks of one overloaded CPU.
#[derive(Debug)]
pub(super) struct Queue {
    classes: Vec<Class>,
    /// By CPU: the classes that may use it, but [`UNKNOWN`].
    classes_of: Vec<Vec<ClassId>>,
    /// By task: its class and where it stands there, plus one; 0 is nowhere.
    places: Vec<(ClassId, u32)>,
}

impl Queue {
    pub(super) fn new(masks: &[Option<CpuSet>]) -> Self {
        let mut classes_of = Vec::<Vec<ClassId>>::new();
        for (class, mask) in masks.iter().enumerate() {
            for cpu in mask.iter().flat_map(CpuSet::iter) {
                if cpu.index() >= classes_of.len() {
                    classes_of.resize(cpu.index() + 1, Vec::new());
                }
                classes_of[cpu.index()].push(class as ClassId);
            }
        }
        let classes = masks.iter().map(|_| Class::default()).collect();
        Self { classes, classes_of, places: Vec::new() }
    }

    /// Whether a CPU that tasks of a class may use is free.
    pub(super) fn has_free(&self, class: ClassId) -> bool {
        self.classes[class as usize].free > 0
    }

    /// The CPU on which a task is stuck.
    pub(super) fn cpu_of(&self, task: TaskId) -> Option<Cpu> {
        let (class, place) = self.places.get(task.index()).copied().filter(|at| at.1 != 0)?;
        Some(self.classes[class as usize].tasks[place as usize - 1].cpu)
    }

    /// A CPU became free or ceased to be: counts it for all classes that may use it.
    pub(super) fn count(&mut self, cpu: Cpu, free: bool) {
        let mut nth = 0;
        while let Some(id) = self.nth(nth, cpu) {
            let class = &mut self.classes[id as usize];
            class.free = if free { class.free + 1 } else { class.free - 1 };
            nth += 1;
        }
    }

    /// The `nth` class that may use `cpu`; the first is [`UNKNOWN`].
    pub(super) fn nth(&self, nth: usize, cpu: Cpu) -> Option<ClassId> {
        match nth.checked_sub(1) {
            None => Some(UNKNOWN),
            Some(nth) => self.classes_of.get(cpu.index())?.get(nth).copied(),
        }
    }

    /// When violations of a class begin or end: its tasks, and whether they begin. Give them back.
    pub(super) fn turn(&mut self, class: ClassId) -> Option<(Vec<Stuck>, bool)> {
        let class = &mut self.classes[class as usize];
        let is_open = class.free > 0;
        if class.is_open == is_open {
            return None;
        }
        class.is_open = is_open;
        Some((std::mem::take(&mut class.tasks), is_open))
    }

    pub(super) fn give_back(&mut self, class: ClassId, tasks: Vec<Stuck>) {
        self.classes[class as usize].tasks = tasks;
    }

    pub(super) fn insert(&mut self, class: ClassId, stuck: Stuck) {
        let task = stuck.task.index();
        if task >= self.places.len() {
            self.places.resize(task + 1, (0, 0));
        }
        let tasks = &mut self.classes[class as usize].tasks;
        tasks.push(stuck);
        self.places[task] = (class, tasks.len() as u32);
    }

    pub(super) fn remove(&mut self, task: TaskId) -> Option<(ClassId, Stuck)> {
        let (class, place) = std::mem::take(self.places.get_mut(task.index())?);
        let place = (place as usize).checked_sub(1)?;
        let tasks = &mut self.classes[class as usize].tasks;
        let stuck = tasks.swap_remove(place);
        if let Some(other) = tasks.get(place) {
            self.places[other.task.index()] = (class, place as u32 + 1);
        }
        Some((class, stuck))
    }

    /// All tasks with their classes, as they stand now.
    pub(super) fn tasks(&self) -> Vec<(ClassId, TaskId)> {
        let classes = (0..).zip(&self.classes);
        classes
            .flat_map(|(id, class)| class.tasks.iter().map(move |stuck| (id, stuck.task)))
            .collect()
    }

    /// Takes out everything that is open.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (ClassId, Stuck)> + use<> {
        let classes = (0..).zip(std::mem::take(&mut self.classes));
        classes.flat_map(|(id, class)| class.tasks.into_iter().map(move |stuck| (id, stuck)))
    }
}
