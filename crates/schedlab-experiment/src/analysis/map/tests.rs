//! Maps of a recorded plane and of noise: what is found, and what is not claimed.

use super::*;
use crate::recorded_runs;
use schedlab_stats::Random;

fn plane(columns: &[&str], rows: &[&str], values: &[&[f64]]) -> ValueGrid {
    let cell = |value: &f64| BTreeMap::from([(0, *value)]);
    ValueGrid {
        x: "w".into(),
        y: "m".into(),
        columns: columns.iter().map(ToString::to_string).collect(),
        rows: rows.iter().map(ToString::to_string).collect(),
        cells: values.iter().map(|row| row.iter().map(cell).collect()).collect(),
    }
}

/// CFS of Linux 6.1.192, one CPU, sockets, 4 groups of 10+10, 100 loops: seconds of virtual time over
/// wakeup granularity (columns) and minimal granularity (rows), one exactly repeatable run a cell.
fn sockets() -> ValueGrid {
    plane(
        &["0.5", "1", "2", "4", "6", "8", "12", "15", "30"],
        &["0.75", "1", "2", "4", "8", "15", "20", "30"],
        &[
            &[0.334, 0.301, 0.220, 0.220, 0.221, 0.217, 0.219, 0.223, 0.214],
            &[0.293, 0.286, 0.227, 0.217, 0.223, 0.221, 0.225, 0.229, 0.220],
            &[0.246, 0.221, 0.239, 0.221, 0.231, 0.218, 0.222, 0.224, 0.234],
            &[0.257, 0.233, 0.227, 0.225, 0.227, 0.219, 0.248, 0.236, 0.228],
            &[0.272, 0.219, 0.218, 0.216, 0.212, 0.215, 0.210, 0.249, 0.234],
            &[0.299, 0.251, 0.228, 0.219, 0.217, 0.217, 0.224, 0.260, 0.243],
            &[0.296, 0.255, 0.224, 0.218, 0.216, 0.215, 0.215, 0.255, 0.252],
            &[0.299, 0.253, 0.229, 0.221, 0.220, 0.214, 0.219, 0.258, 0.237],
        ],
    )
}

/// The noise that is given. The record has one run a cell and bounds its noise so: nine cells of a like grid, run twice
/// without a fixed seed, differed by 0.4 to 0.8 % at w of 6 and more and by 0.8 to 2.5 % at w = 1, which is a standard
/// deviation of a run of 0.3 to 1.8 %. Neighbours on the plane scatter by about 2 % inside the valley. See
/// `what_is_claimed_of_the_plane_depends_on_the_noise_that_is_given` for all from 0.5 to 10 %.
const GIVEN: Noise = Noise::Given(0.02);

fn has_wall(map: &Map) -> bool {
    map.edges
        .iter()
        .any(|e| (&*e.axis, &*e.before, &*e.after) == ("w", "12", "15") && e.ratio > 1.0)
}

fn has_valley(map: &Map) -> bool {
    map.edges.iter().any(|e| e.axis == "w" && ["1", "2"].contains(&&*e.after) && e.ratio < 1.0)
}

#[test]
fn what_is_claimed_of_the_plane_depends_on_the_noise_that_is_given() {
    let plane = sockets();
    let claims = |sigma: f64| {
        let map = Map::new(&plane, Noise::Given(sigma), true, Choice::Cells).unwrap();
        (has_valley(&map), has_wall(&map), map.flat.len())
    };
    // Valley and wall up to twice the given noise; at 5 % a run the wall could be luck, and is not told.
    let all = [0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.1].map(claims);
    assert!(all.iter().all(|(valley, ..)| *valley), "{all:?}");
    assert_eq!(all.map(|(_, wall, _)| wall), [true, true, true, true, true, true, false, false]);
    // More noise, never more claims.
    assert!(all.windows(2).all(|pair| pair[0].2 <= pair[1].2), "{all:?}");
}

#[test]
fn the_valley_and_the_wall_of_the_recorded_plane_are_found() {
    let plane = sockets();
    let map = Map::new(&plane, GIVEN, true, Choice::Cells).unwrap();
    // The wall: w from 12 to 15, for m of 8 and more, upwards, and nowhere else.
    let walls: Vec<&Edge> = map.edges.iter().filter(|e| e.axis == "w" && e.ratio > 1.0).collect();
    assert_eq!(walls.len(), 1, "{:#?}", map.edges);
    assert_eq!((&*walls[0].before, &*walls[0].after), ("12", "15"));
    assert_eq!((&*walls[0].from, &*walls[0].to), ("8", "30"));
    // The valley's left side: a fall somewhere from 0.5 to 2 for small and for large m.
    let falls: Vec<&Edge> = map.edges.iter().filter(|e| e.axis == "w" && e.ratio < 1.0).collect();
    assert!(falls.iter().all(|e| ["1", "2"].contains(&&*e.after)), "{falls:#?}");
    assert!(
        falls.iter().any(|e| e.from == "0.75") && falls.iter().any(|e| e.to == "30"),
        "{falls:#?}"
    );
    // The floor of the valley is one flat region; both sides are not in it.
    for row in 0..8 {
        for column in 3..6 {
            assert!(map.flat.contains(&(row, column)), "row {row}, column {column}");
        }
        assert!(!map.flat.contains(&(row, 0)), "w = 0.5 is bad for every m");
    }
    for row in 4..8 {
        assert!(!map.flat.contains(&(row, 7)), "w = 15 is the wall");
    }
}

#[test]
fn nothing_is_claimed_of_m_inside_the_valley() {
    let map = Map::new(&sockets(), GIVEN, true, Choice::Cells).unwrap();
    let claims: Vec<&Edge> = map
        .edges
        .iter()
        .filter(|e| e.axis == "m" && ["2", "4", "6", "8", "12"].contains(&&*e.from))
        .collect();
    assert!(claims.is_empty(), "m is worth 2 to 4 % there, within the scatter: {claims:#?}");
}

#[test]
fn where_there_is_no_wall_none_is_found() {
    // The same kernel with 2 groups of 10+10: m = 16 at w = 6 and 30 (.239/.240 and .238/.239, two runs
    // each), m = 1 at w = 6 (.235/.236): no wall and no effect of m.
    let cell = |a: f64, b: f64| BTreeMap::from([(0, a), (1, b)]);
    let plane = ValueGrid {
        x: "w".into(),
        y: "m".into(),
        columns: vec!["6".into(), "30".into()],
        rows: vec!["1".into(), "16".into()],
        cells: vec![
            vec![cell(0.235, 0.236), BTreeMap::new()],
            vec![cell(0.239, 0.240), cell(0.238, 0.239)],
        ],
    };
    let map = Map::new(&plane, GIVEN, true, Choice::Cells).unwrap();
    assert!(map.shows_nothing());
    assert!(map.sentences(&plane)[1].contains("no difference"));
}

#[test]
fn single_runs_without_given_noise_make_no_map() {
    assert_eq!(
        Map::new(&sockets(), Noise::Measured, true, Choice::Cells),
        Err(MapError::SingleRuns)
    );
}

/// The recorded host runs with the labels of their cells shuffled within each block.
fn shuffled(seed: u64) -> ValueGrid {
    let mut plane = recorded_runs::plane("time_s");
    let (rows, columns) = (plane.rows.len(), plane.columns.len());
    let mut random = Random::new(seed);
    for block in 0..recorded_runs::BLOCKS {
        let mut values: Vec<f64> = plane.cells.iter().flatten().map(|cell| cell[&block]).collect();
        random.shuffle(&mut values);
        for (i, value) in values.into_iter().enumerate() {
            plane.cells[i / columns][i % columns].insert(block, value);
        }
    }
    assert_eq!(rows * columns, plane.cells.iter().flatten().count());
    plane
}

#[test]
fn shuffled_labels_show_no_difference() {
    let trials: u32 = 400;
    let claims = (0..trials)
        .filter(|seed| {
            let map = Map::new(&shuffled(u64::from(*seed)), Noise::Measured, true, Choice::Cells)
                .unwrap();
            !map.shows_nothing()
        })
        .count();
    // At most 5 % of maps may claim anything; 5 % and three standard deviations of 400 trials.
    assert!(claims <= 33, "{claims} of {trials} maps of shuffled labels claim something");
}

#[test]
fn the_recorded_effect_of_groups_is_found_without_shuffling() {
    let plane = recorded_runs::plane("time_s");
    let map = Map::new(&plane, Noise::Measured, true, Choice::Cells).unwrap();
    assert!(!map.shows_nothing());
    assert!(map.edges.iter().any(|e| e.axis == "groups" && e.ratio > 1.3), "{:#?}", map.edges);
}

/// A plane of noise alone: three loads with noise of 1, 2 and 6 parts in a hundred.
fn noise_alone(random: &mut Random, repeats: u32) -> ValueGrid {
    let slices = ["100us", "316us", "1ms", "3.16ms", "10ms", "31.6ms", "100ms"];
    let row: &[f64] = &[1.0; 7];
    let mut empty = plane(&slices, &["1", "2", "4"], &[row; 3]);
    let drift: Vec<f64> = (0..repeats).map(|_| 0.02 * random.normal()).collect();
    for (row, sigma) in empty.cells.iter_mut().zip([0.01, 0.02, 0.06]) {
        for cell in row {
            let values =
                (0..repeats).map(|b| (b, (drift[b as usize] + sigma * random.normal()).exp()));
            *cell = values.collect();
        }
    }
    empty
}

#[test]
fn unequal_noise_alone_names_no_best_cell() {
    for (repeats, choice) in [(3, Choice::Cells), (5, Choice::InRows), (8, Choice::Cells)] {
        let mut random = Random::new(u64::from(repeats));
        let trials = 400;
        let named = (0..trials)
            .filter(|_| {
                let plane = noise_alone(&mut random, repeats);
                !Map::new(&plane, Noise::Measured, true, choice).unwrap().shows_nothing()
            })
            .count();
        // 5 % and three standard deviations.
        assert!(
            named <= 33,
            "{repeats} repeats: {named} of {trials} maps of noise claim something"
        );
    }
}

#[test]
fn two_repeats_are_too_few_unless_the_noise_is_given() {
    let plane = noise_alone(&mut Random::new(1), 2);
    let map = |noise| Map::new(&plane, noise, true, Choice::Cells);
    assert_eq!(map(Noise::Measured), Err(MapError::TooFew));
    assert!(map(Noise::Given(0.02)).is_ok());
}

#[test]
fn one_repeated_cell_tells_nothing_of_the_others() {
    let mut plane = sockets();
    plane.cells[0][0].insert(1, 0.335);
    plane.cells[0][0].insert(2, 0.333);
    assert_eq!(Map::new(&plane, Noise::Measured, true, Choice::Cells), Err(MapError::TooFew));
}

#[test]
fn a_load_is_not_a_choice() {
    let mut random = Random::new(2);
    let mut plane = noise_alone(&mut random, 5);
    // Twice the load takes twice the time, and 100 ms is a quarter slower at each.
    for (row, load) in plane.cells.iter_mut().zip([1.0, 2.0, 4.0]) {
        for (column, cell) in row.iter_mut().enumerate() {
            let slow = if column == 6 { 1.5 } else { 1.0 };
            cell.values_mut().for_each(|v| *v *= load * slow);
        }
    }
    let map = Map::new(&plane, Noise::Measured, true, Choice::InRows).unwrap();
    assert_eq!(map.best.len(), 3, "one for each load");
    assert!((0..3).all(|row| (0..3).all(|column| map.flat.contains(&(row, column)))));
    assert!(!map.flat.contains(&(0, 6)) && !map.flat.contains(&(1, 6)), "{:?}", map.flat);
    let told = map.sentences(&plane).concat();
    assert!(told.contains("At each load alone"), "{told}");
}
