//! The deque of a worker: its owner works at one end, others steal at the other one. In a model it is a list with a lock.

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(not(loom))]
mod real {
    use crate::graph::Node;
    use crossbeam_deque::{Steal, Stealer as Inner, Worker};

    pub(crate) struct Deque(Worker<Node>);

    pub(crate) struct Stealer(Inner<Node>);

    impl Deque {
        pub(crate) fn new() -> Self {
            Self(Worker::new_lifo())
        }

        pub(crate) fn stealer(&self) -> Stealer {
            Stealer(self.0.stealer())
        }

        pub(crate) fn push(&self, node: Node) {
            self.0.push(node);
        }

        pub(crate) fn pop(&self) -> Option<Node> {
            self.0.pop()
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }
    }

    impl Stealer {
        /// Takes about half of what there is into another deque, less one, which is returned.
        pub(crate) fn steal_into(&self, deque: &Deque) -> Option<Node> {
            loop {
                match self.0.steal_batch_and_pop(&deque.0) {
                    Steal::Success(node) => return Some(node),
                    Steal::Empty => return None,
                    Steal::Retry => std::hint::spin_loop(),
                }
            }
        }
    }
}

#[cfg(loom)]
mod model {
    use crate::graph::Node;
    use loom::sync::{Arc, Mutex};
    use std::collections::VecDeque;

    type Shared = Arc<Mutex<VecDeque<Node>>>;

    pub(crate) struct Deque(Shared);

    pub(crate) struct Stealer(Shared);

    impl Deque {
        pub(crate) fn new() -> Self {
            Self(Arc::new(Mutex::new(VecDeque::new())))
        }

        pub(crate) fn stealer(&self) -> Stealer {
            Stealer(Arc::clone(&self.0))
        }

        pub(crate) fn push(&self, node: Node) {
            self.0.lock().expect("no panic with the lock").push_back(node);
        }

        pub(crate) fn pop(&self) -> Option<Node> {
            self.0.lock().expect("no panic with the lock").pop_back()
        }

        pub(crate) fn len(&self) -> usize {
            self.0.lock().expect("no panic with the lock").len()
        }
    }

    impl Stealer {
        pub(crate) fn steal_into(&self, _: &Deque) -> Option<Node> {
            self.0.lock().expect("no panic with the lock").pop_front()
        }
    }
}
