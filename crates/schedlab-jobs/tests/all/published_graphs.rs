//! The graphs that Lumiera published with their hashes; ours must agree.

use schedlab_jobs::graph::{Hashing, Rule, Rules, When};

const OFF: Rule = Rule::OFF;

fn chance(probability: f64) -> Rule {
    Rule::chance(probability)
}

#[derive(Clone, Copy)]
struct Growth {
    seeding: Rule,
    expansion: Rule,
    reduction: Rule,
    pruning: Rule,
}

const NONE: Growth = Growth { seeding: OFF, expansion: OFF, reduction: OFF, pruning: OFF };

fn check(nodes: u32, fan: u32, seed: u64, growth: Growth, levels: u32, hash: u64) {
    let Growth { seeding, expansion, reduction, pruning } = growth;
    let hashing = Hashing::Compat;
    let rules =
        Rules { nodes, fan, seed, seeding, expansion, reduction, pruning, weight: OFF, hashing };
    let graph = rules.build();
    let expected = format!("{levels} levels {hash:016X}");
    assert_eq!(format!("{} levels {:016X}", graph.levels(), graph.hash()), expected, "{rules:?}");
    assert_eq!(rules.build(), graph, "the same rules give the same graph");
}

#[test]
fn expansion_and_reduction_reproduce_the_published_hashes() {
    let exp = |expansion| Growth { expansion, ..NONE };
    check(32, 16, 0, NONE, 32, 0xB344_5F12_40A1_B05F);
    check(32, 16, 0, exp(chance(0.4).max(2)), 11, 0x6EDD_7B92_F12E_9A37);
    check(32, 16, 0, exp(chance(0.4).max(2).shuffle(23)), 7, 0x710D_0105_54FE_A614);
    check(256, 8, 0, exp(chance(0.4).max(2).shuffle(23)), 36, 0x6194_91B2_2C3F_8A6F);
    let both = |expansion, reduction| Growth { expansion, reduction, ..NONE };
    let red = chance(0.2).max(3).shuffle(555);
    let start = Rule::fixed(8).when(When::AtStart);
    check(32, 16, 0, both(start, red), 8, 0x3E9B_FAE5_E686_BEB4);
    check(32, 16, 0, both(red, red), 11, 0xB033_5595_D34F_1D8D);
    let wide = chance(0.3).max(4).shuffle(555);
    let tight = chance(0.9).max(2).shuffle(555);
    check(32, 16, 0, both(wide, tight), 12, 0x220A_2E81_F651_46FC);
    let bursts = both(chance(0.27).max(4), chance(0.44).max(6).min(2));
    check(256, 16, 62, bursts, 30, 0x2511_4F87_70B1_B78E);
}

#[test]
fn seeding_and_pruning_reproduce_the_published_hashes() {
    let seeds = chance(0.2).max(3).shuffle(55);
    check(32, 16, 0, Growth { seeding: seeds, ..NONE }, 7, 0xBC35_A96B_3CE1_F39F);
    let joined = Growth { seeding: seeds, reduction: chance(0.9).max(2), ..NONE };
    check(32, 16, 0, joined, 10, 0x3DFA_7201_5654_0247);
    let prune = Growth { pruning: chance(0.2), ..NONE };
    check(32, 16, 0, prune, 32, 0x0660_BD1C_D261_A990);
    let fans = Growth { expansion: chance(0.6), ..prune };
    check(32, 16, 10101, fans, 14, 0x1D0A_7C39_6473_40AA);
    let shuffled = Growth { pruning: chance(0.2).shuffle(5), ..fans };
    check(32, 16, 10101, shuffled, 6, 0x12BB_22F7_6ECC_5C1B);
    let seeded = Growth { seeding: Rule::fixed(1).when(When::AtStart), ..prune };
    check(32, 16, 10101, seeded, 12, 0xBFFA_04FE_8202_C708);
    let steady = Growth {
        seeding: Rule::fixed(1),
        pruning: chance(0.5),
        reduction: chance(0.8).max(4),
        ..NONE
    };
    check(32, 16, 10101, steady, 8, 0xFB0A_0EA9_B707_2507);
}

#[test]
fn links_and_joins_reproduce_the_published_hashes() {
    let links = Growth {
        seeding: Rule::fixed(1).when(When::AtLink),
        pruning: chance(0.4),
        reduction: chance(0.6).max(5).min(2),
        ..NONE
    };
    check(256, 16, 23, links, 93, 0x6B5D_7BD3_1300_44E2);
    check(256, 16, 23, Growth { pruning: chance(0.5), ..links }, 77, 0x2012_2CF2_A1F3_01D1);
    let joins = Growth {
        seeding: chance(0.6).max(1),
        reduction: chance(0.75).max(3),
        pruning: Rule::fixed(1).when(When::AtJoin),
        ..NONE
    };
    check(256, 16, 47, joins, 104, 0xB589_0467_4ED8_4031);
    let more = Growth { seeding: chance(0.8).max(1), ..joins };
    check(256, 16, 0, more, 55, 0x11B5_7D9E_98FD_F6DF);
    let shuffled = Growth { reduction: chance(0.75).max(3).shuffle(55), ..more };
    check(256, 16, 0, shuffled, 44, 0x7C04_53E7_A4F6_418D);
    let pruned = Growth { pruning: chance(0.55), ..more };
    check(256, 16, 55, pruned, 21, 0x904A_906B_7859_301A);
}

#[test]
fn many_seeds_reproduce_the_published_hashes() {
    let one = Growth {
        seeding: chance(0.8).max(1),
        reduction: chance(0.6).max(5).min(2),
        pruning: chance(0.4),
        ..NONE
    };
    check(256, 16, 42, one, 26, 0x9453_C565_34FF_9CD6);
    let two = Growth { seeding: chance(0.8).max(2), pruning: chance(0.42), ..one };
    check(256, 16, 23, two, 129, 0xA577_27C2_ED27_7C87);
    let shuffled = Growth { seeding: chance(0.8).max(2).shuffle(55), ..two };
    check(256, 16, 23, shuffled, 20, 0x4D05_75F8_BD26_9FC3);
}
