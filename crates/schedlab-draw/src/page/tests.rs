//! The page of small traces: its head, its parts and its script.

use super::*;
use crate::waiting::Level;
use schedlab_model::EventSource as _;
use schedlab_timeline::DensityAnswer;

#[test]
fn the_modules_join_into_one_script() {
    let script = script();
    assert!(!script.lines().any(|line| line.starts_with("import") || line.starts_with("export")));
    assert!(!script.contains("</script"), "it would end itself");
    // Top-level names must be unique: two modules share one scope here.
    let mut names: Vec<&str> = script
        .lines()
        .filter_map(|line| {
            let line = line.strip_prefix("async ").unwrap_or(line);
            let rest = ["function ", "const ", "class "]
                .iter()
                .find_map(|word| line.strip_prefix(word))?;
            rest.split(|c: char| !c.is_alphanumeric()).next()
        })
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name is defined twice");
}

#[test]
fn names_cannot_leave_their_place() {
    let name = "</script><b>\"\\\n\u{202e}{{data}}";
    let data = PageData::named(Span::new(Nanos(5), Nanos(10)), name);
    let note = Note { span: data.window, cpu: 0, text: "</script>".into(), story: None };
    let page = page("</title><script>alert(1)</script>{{css}}", &data, None, &[note], 1);
    assert_eq!(page.matches("</script>").count(), 7, "seven elements of ours");
    assert!(!page.contains("<script>alert") && !page.contains('\u{202e}'));
    assert!(page.contains("{{data}}"), "values are not looked at again");
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("http://www.w3.org/").count()
    );
}

fn data() -> PageData {
    let text = "0 | AAAABBBB\n1 | ..CC....\nat 2: A marks 0 begin\nat 3: A marks 0 end";
    super::columns::tests::data(text)
}

#[test]
fn marks_are_columns_of_each_row() {
    let data = data();
    let cpus: Vec<_> = data.cpus.iter().collect();
    // Of CPU 0: gaps of 2 and 1 us, name 0 twice, begin and end, the task twice, nothing said; CPU 1 has none.
    let task = data.points.found[0].task as u8;
    let expected = [0xd0, 0x0f, 0xe8, 0x07, 0, 0, 0, 1, task, task, 0, 0];
    assert_eq!(points(&data, &cpus), expected);
    assert_eq!(points_head(&data, &cpus), "{\"names\":[\"phase\"],\"counts\":[2,0],\"leftOut\":0}");
}

#[test]
fn columns_stand_for_slices_with_a_part_for_each_row_and_one_for_all() {
    let cell = |busy, top| Cell { busy, unknown: 0, top_part: busy, mixed: 1, top };
    let row = |cpu, cells: &[Cell]| (schedlab_model::Cpu(cpu), cells.to_vec());
    let level = |running, waiting| Level {
        running: Nanos(running),
        waiting: Nanos(waiting),
        ..Level::default()
    };
    let mut data = data();
    let fine = DensityAnswer {
        window: data.window,
        columns: 2,
        rows: vec![row(0, &[cell(u16::MAX, 4), cell(0, 0)]), row(1, &[cell(256, 4), cell(256, 5)])],
    };
    data.fine = Some((fine, vec![level(1, 2), level(3, 300)]));
    let cpus: Vec<_> = data.cpus.iter().collect();
    // How busy each column is, then who ran: the number and 1, or 0 for the same as before.
    let expected =
        [(0, 2, vec![255, 0, 5, 0]), (1, 2, vec![1, 1, 5, 6]), (-1, 2, vec![1, 3, 2, 0xac, 2])];
    assert_eq!(fine_parts(&data, &cpus), expected);
}

#[test]
fn the_theme_of_the_script_has_each_role_in_hexadecimal() {
    let text = theme(&Theme::light());
    let ground = Theme::light().panel;
    let hex = format!("{{\"ground\":\"#{:02x}{:02x}{:02x}\",", ground.r, ground.g, ground.b);
    assert!(text.starts_with(&hex), "{text}");
    let tasks = text.split_once("\"tasks\":[").unwrap().1.split_once(']').unwrap().0;
    assert_eq!(tasks.split(',').count(), Theme::light().tasks.len());
}

#[test]
fn the_script_is_strict_and_runs_in_a_scope_of_its_own() {
    assert!(script().starts_with("(() => {\n\"use strict\";\n"));
    assert!(script().lines().any(|line| line.starts_with("function ")));
    assert!(!script().contains("@ts-check"));
}

#[test]
fn the_page_names_each_row_and_the_size_of_each_part() {
    let data = data();
    let topology = Topology::flat(2);
    let page = page("t", &data, Some(&topology), &[], 0);
    for (row, (_, track)) in data.cpus.iter().enumerate() {
        let bytes: usize = track.parts[0].columns.iter().map(Vec::len).sum();
        let size = format!("[{row},{},{bytes}]", track.count);
        assert!(page.contains(&size), "{size}");
    }
    assert!(page.contains("{\"cpu\":0,\"socket\":0,\"llc\":0,\"count\":2}"));
    assert!(page.contains("{\"cpu\":1,\"socket\":0,\"llc\":0,\"count\":1}"));
}

#[test]
fn the_coarse_columns_are_those_of_each_row() {
    let data = data();
    let cpus: Vec<_> = data.cpus.iter().collect();
    let of = |row: usize| coarse_columns(&data, &cpus[row..=row])[0];
    assert_eq!((of(0), of(1)), (255, 0), "A runs on CPU 0 and CPU 1 is idle");
    let both = coarse_columns(&data, &cpus);
    assert!(both.starts_with(&coarse_columns(&data, &cpus[..1])));
}

#[test]
fn text_of_the_document_is_escaped() {
    assert_eq!(html("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
}

#[test]
fn an_episode_is_told_with_its_task_its_cpu_and_its_cost() {
    let text = "0 | AAAAAAAA\n  | bbbb\n1 | ....BBBB";
    let trace = schedlab_timeline::notation::parse(text).unwrap();
    let info = trace.source().info().clone();
    let question = schedlab_timeline::Conservation::new(Default::default(), &info);
    let reply = schedlab_timeline::ask(&mut trace.source(), question).unwrap();
    let notes = notes(&reply.answer, &reply.state);
    assert_eq!(notes.len(), 1);
    let note = &notes[0];
    let story = notes[0].story.as_ref().unwrap();
    assert!(note.text.starts_with("B (2) waited on CPU 0. This lost "), "{}", note.text);
    assert!(note.text.contains("Inferred: ") && note.text.contains("It ended when "));
    assert_eq!((note.cpu, story.free.to_string()), (0, "1".to_owned()));
}

#[test]
fn a_part_of_a_trace_counts_its_times_from_the_traces_begin() {
    let mut data = data();
    data.window = Span::new(Nanos(1_500), Nanos(1_500 + data.window.duration().0));
    let story = EpisodePicture {
        since: Nanos(1_400),
        task: TaskId(3),
        cost: Nanos(20),
        waker: Some((TaskId(2), Cpu(1))),
        free: "1".parse().unwrap(),
    };
    let note = Note {
        span: Span::new(Nanos(1_600), Nanos(1_700)),
        cpu: 0,
        text: "late".into(),
        story: Some(story.clone()),
    };
    let alone = Note { story: Some(EpisodePicture { waker: None, ..story }), ..note.clone() };
    let page = page_from("t", &data, Nanos(1_000), None, &[note, alone], 7);
    assert!(page.contains("\"origin\":\"1000\",\"shift\":500,"), "{page}");
    let told = "{\"start\":100,\"end\":200,\"cpu\":0,\"text\":\"late\",\"story\":{\"since\":-100,\
        \"task\":3,\"cost\":20,\"waker\":2,\"wakerCpu\":1,\"free\":\"1\"}}";
    assert!(page.contains(told), "{page}");
    assert!(page.contains("\"wakerCpu\":0,\"free\":\"1\""), "nobody woke the other");
    assert!(page.contains("\"episodesCount\":7"));
    assert!(page.contains("{\"cpu\":0,\"socket\":null,\"llc\":null,\"count\":2}"));
}

#[test]
fn rows_stand_in_the_order_of_the_sockets() {
    let places = [(0, 1), (1, 0)].map(|(cpu, socket)| schedlab_model::Place {
        cpu: Cpu(cpu),
        core: u32::from(cpu),
        llc: socket,
        node: socket,
        socket,
    });
    let page = page("t", &data(), Some(&Topology::new(places.to_vec())), &[], 0);
    let row = |cpu: u16| page.find(&format!("{{\"cpu\":{cpu},\"socket\"")).unwrap();
    assert!(row(1) < row(0));
}
