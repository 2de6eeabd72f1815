//! Speeds as settings of a run: `speed:CPUS`, as experiments sweep them.

use super::{Assignment, Ground, Method, Node, Request, Session, SlowError, speeds};
use schedlab_model::Setting;

/// What the name of a speed's setting begins with; the CPUs follow.
pub const SETTING: &str = "speed:";

/// Parts the settings of a run into those that are speeds, and the others.
#[must_use]
pub fn part(settings: &[Setting]) -> (Vec<Setting>, Vec<Setting>) {
    settings.iter().cloned().partition(|setting| setting.knob.starts_with(SETTING))
}

/// Holds CPUs at the speeds of settings by hogs, until what is returned is finished or dropped;
/// nothing where there are none.
///
/// # Errors
/// When they make no sense, or hogs can't be had here.
pub fn hold(settings: &[Setting]) -> Result<Option<Session>, SlowError> {
    if settings.is_empty() {
        return Ok(None);
    }
    let ground = Ground::here();
    let request = request(settings)?;
    Session::start(request.plan(&ground)?, &ground).map(Some)
}

fn request(settings: &[Setting]) -> Result<Request, SlowError> {
    let assignment = |setting: &Setting| -> Result<Assignment, SlowError> {
        let cpus = setting.knob.strip_prefix(SETTING).unwrap_or_default();
        format!("{cpus}={}", setting.value).parse().map_err(SlowError::Usage)
    };
    let all = settings.iter().map(assignment).collect::<Result<Vec<_>, _>>()?;
    let node = Node { name: "all".into(), speeds: speeds(&all)?, ..Node::default() };
    Ok(Request { method: Some(Method::Hogs), nodes: vec![node], ..Request::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(knob: &str, value: &str) -> Setting {
        Setting { knob: knob.into(), value: value.into() }
    }

    #[test]
    fn speeds_are_told_from_knobs_and_read() {
        let all = [setting("speed:0-1", "30%"), setting("base_slice", "1ms")];
        let (mine, others) = part(&all);
        assert_eq!(others, [setting("base_slice", "1ms")]);
        let request = request(&mine).unwrap();
        assert_eq!(request.nodes[0].speeds.len(), 2);
        assert!(super::request(&[setting("speed:0", "130%")]).is_err());
        assert!(super::request(&[setting("speed:0", "1"), setting("speed:0-1", "1")]).is_err());
    }
}
