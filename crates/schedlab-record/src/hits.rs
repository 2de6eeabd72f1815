//! Records of probes and calls become the marks of requests.

use super::request_probes::{Probed, is_own};
use super::tracepoints::Tracepoint;
use schedlab_model::{Phase, Pid};
use std::collections::BTreeMap;

/// What each event id begins and ends, and the numbers of requests that have a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hits {
    by_id: BTreeMap<u16, Vec<Role>>,
    /// By request, process and key. Processes have the same addresses and descriptors for different things.
    numbers: BTreeMap<(u32, Pid, u64), u32>,
}

#[derive(Clone, Debug)]
struct Role {
    request: u32,
    phase: Phase,
    /// Where the key is, and its size.
    key: Option<(usize, usize)>,
    returned: bool,
    /// The record is there for this mark alone.
    is_own: bool,
}

/// A mark that a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HitMark {
    pub(crate) pid: Pid,
    /// The request, as an index into those that were asked for.
    pub(crate) request: u32,
    pub(crate) phase: Phase,
    /// The number of the request; 0 if the thread tells it.
    pub(crate) number: u32,
}

impl Hits {
    pub(crate) fn new(requests: &[Probed], points: &[Tracepoint]) -> Self {
        let mut by_id: BTreeMap<u16, Vec<Role>> = BTreeMap::new();
        for (request, probed) in (0..).zip(requests) {
            for hit in &probed.events {
                let named =
                    |point: &&Tracepoint| point.system == hit.system && point.name == hit.event;
                let Some(point) = points.iter().find(named) else { continue };
                let key = hit.key.as_ref().and_then(|key| point.field(key));
                let phase = if hit.ends { Phase::End } else { Phase::Begin };
                let is_own = is_own(point);
                let returned = hit.returned;
                let role = Role { request, phase, key, returned, is_own };
                by_id.entry(point.id).or_default().push(role);
            }
        }
        // An event that ends one request and begins another ends it first.
        by_id.values_mut().for_each(|roles| roles.sort_by_key(|role| role.phase != Phase::End));
        Self { by_id, numbers: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Whether a record is there for its marks alone.
    pub(crate) fn is_own(&self, id: u16) -> bool {
        self.by_id.get(&id).is_some_and(|roles| roles.iter().all(|role| role.is_own))
    }

    /// The marks that a record's body is, in their order. `process` tells whose a thread is.
    pub(crate) fn marks(&mut self, body: &[u8], process: impl Fn(Pid) -> Pid) -> Vec<HitMark> {
        let id = body.first_chunk().map(|id| u16::from_ne_bytes(*id));
        let pid = body
            .get(4..)
            .and_then(|rest| rest.first_chunk())
            .map(|pid| Pid(i32::from_ne_bytes(*pid)));
        let (Some(roles), Some(pid)) = (id.and_then(|id| self.by_id.get(&id)), pid) else {
            return Vec::new();
        };
        let numbers = &mut self.numbers;
        let mark = |role: &Role| {
            let number = match role.key {
                None => 0,
                Some((at, size)) => {
                    let key = word(body.get(at..at + size)?)?;
                    if role.returned && is_error(key) {
                        return None;
                    }
                    let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX - 1) + 1;
                    *numbers.entry((role.request, process(pid), key)).or_insert(next)
                }
            };
            Some(HitMark { pid, request: role.request, phase: role.phase, number })
        };
        roles.iter().filter_map(mark).collect()
    }
}

/// Whether a returned value is that of a call that failed: the kernel's, or the -1 of C.
fn is_error(value: u64) -> bool {
    (-4095..0).contains(&value.cast_signed()) || value == u64::from(u32::MAX)
}

/// A number of the machine's byte order, of any size up to eight bytes.
fn word(bytes: &[u8]) -> Option<u64> {
    let mut all = [0; 8];
    if cfg!(target_endian = "big") {
        all.get_mut(8usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    } else {
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    }
    Some(u64::from_ne_bytes(all))
}

#[cfg(test)]
mod tests {
    use super::super::request_probes::Hit;
    use super::*;

    fn point(system: &str, name: &str, id: u16) -> Tracepoint {
        let format = "\tfield:unsigned int key;\toffset:8;\tsize:4;\tsigned:0;\n".into();
        Tracepoint { system: system.into(), name: name.into(), id, format }
    }

    fn hit(system: &str, event: &str, ends: bool, key: Option<&str>) -> Hit {
        let returned = key == Some("ret");
        let key = key.map(|_| "key".to_owned());
        Hit { system: system.into(), event: event.into(), ends, key, returned, by_return: false }
    }

    fn body(id: u16, pid: i32, key: u32) -> Vec<u8> {
        [&id.to_ne_bytes()[..], &[0, 0], &pid.to_ne_bytes(), &key.to_ne_bytes()].concat()
    }

    #[test]
    fn a_key_is_a_number_within_its_process_and_its_request() {
        let own = "schedlab_requests_7";
        let points =
            [point(own, "b", 1), point(own, "e", 2), point("syscalls", "c", 3), point(own, "r", 5)];
        let mut keyed = vec![hit(own, "b", false, Some("key")), hit(own, "e", true, Some("key"))];
        keyed.push(hit(own, "r", false, Some("ret")));
        let plain = vec![hit("syscalls", "c", false, None), hit(own, "e", true, None)];
        let of = |name: &str, events| Probed { name: name.into(), events, nests: false };
        let mut hits = Hits::new(&[of("x", keyed), of("y", plain)], &points);
        assert!(hits.is_own(1) && !hits.is_own(3) && !hits.is_own(9));
        let process = |pid: Pid| Pid(pid.0 / 10 * 10);
        let mut numbers = |id, pid, key| -> Vec<(u32, u32)> {
            let marks = hits.marks(&body(id, pid, key), process);
            marks.iter().map(|mark| (mark.request, mark.number)).collect()
        };
        assert_eq!(numbers(1, 21, 0), [(0, 1)], "0 is a key as any other");
        assert_eq!(numbers(1, 31, 0), [(0, 2)], "another process");
        assert_eq!(numbers(2, 22, 0), [(0, 1), (1, 0)], "another thread of the first");
        assert_eq!(numbers(3, 21, 5), [(1, 0)]);
        assert!(numbers(4, 21, 0).is_empty());
        assert!(numbers(5, 21, u32::MAX).is_empty(), "a call that failed");
        assert_eq!(numbers(5, 21, 0), [(0, 1)]);
        assert!(hits.marks(&body(1, 21, 0)[..10], process).is_empty(), "a cut record");
    }
}
