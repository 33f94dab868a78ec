//! What ranking by outcomes gains, costs and withstands: `cargo bench -p registry --bench outcomes`.
//! The figures stand in `docs/search.md`.

#![expect(clippy::print_stdout, reason = "the figures are what a bench is for")]

use registry::simulate::{Attack, Estimate, attack, compare, cost};

/// Any; those of the documentation are of this one.
const SEED: u64 = 20_261_122;

fn main() {
    // `cargo test --benches` runs this, too: then it only has to begin.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    println!("success of what is run, 95 % confidence");
    for runs in [10, 30, 100, 300, 1_000] {
        let found = compare(SEED, 500, runs);
        println!(
            "{runs:>5} runs for each intent: most similar {}, highest score {}, gain {}, best possible {}",
            percent(found.most_similar),
            percent(found.highest_score),
            percent(found.gain),
            percent(found.best),
        );
    }
    println!("\nintents with another winner after hostile reports");
    for kind in Attack::ALL {
        for (runs, gap) in [(100, 0.1), (500, 0.05), (500, 0.1), (2_000, 0.05)] {
            let found = attack(SEED, 100, runs, gap, kind);
            println!(
                "{kind:?}, {runs} honest runs for each capability, best ahead by {gap}: {} of {} (if all reports counted alike: {})",
                found.changed, found.intents, found.changed_if_all_count
            );
        }
    }
    let found = cost(SEED, 2_000);
    println!(
        "\nall equally reliable: Recall@5 {} by similarity, {} lost by score",
        percent(found.before),
        percent(found.loss)
    );
}

fn percent(Estimate { mean, margin }: Estimate) -> String {
    format!("{:.1} ± {:.1} %", mean * 100.0, margin * 100.0)
}
