//! Graphs in the languages of tools that draw them.

use std::collections::BTreeMap;

use a2s_api::{CapabilityGraph, GraphEdge};

/// The effect on a node when the root is yanked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum YankEffect {
    Breaks,
    Moves,
}

fn yank_effects(graph: &CapabilityGraph) -> BTreeMap<&str, YankEffect> {
    let Some(impact) = &graph.impact else { return BTreeMap::new() };
    let breaks = impact.broken.iter().map(|broken| (broken.id.as_str(), YankEffect::Breaks));
    let moves = impact.changed.iter().map(|moved| (moved.id.as_str(), YankEffect::Moves));
    breaks.chain(moves).collect()
}

fn label(edge: &GraphEdge) -> String {
    if edge.pinned { format!("{} pinned", edge.range) } else { edge.range.clone() }
}

/// Writes the graph in DOT.
pub(super) fn dot(graph: &CapabilityGraph) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let fates = yank_effects(graph);
    let mut lines = vec![
        format!("digraph {} {{", quoted(&graph.root)),
        "  rankdir=LR;".to_owned(),
        "  node [shape=box, fontname=\"sans-serif\"];".to_owned(),
    ];
    for node in &graph.nodes {
        let mut styles = Vec::new();
        if node.id == graph.root {
            styles.push("penwidth=2".to_owned());
        }
        if node.yanked {
            styles.push("style=dashed".to_owned());
        }
        match fates.get(node.id.as_str()) {
            Some(YankEffect::Breaks) => styles.push("color=red".to_owned()),
            Some(YankEffect::Moves) => styles.push("color=orange".to_owned()),
            None => {}
        }
        lines.push(format!("  {} [{}];", quoted(&node.id), styles.join(", ")));
    }
    for edge in &graph.edges {
        let (from, label) = (quoted(&edge.from), quoted(&label(edge)));
        lines.push(match &edge.to {
            Some(to) => format!("  {from} -> {} [label={label}];", quoted(to)),
            None => {
                format!("  {from} -> {} [label={label}, style=dashed];", quoted(edge.uses.as_str()))
            }
        });
    }
    lines.push("}\n".to_owned());
    lines.join("\n")
}

/// Writes the graph as a Mermaid flowchart.
pub(super) fn mermaid(graph: &CapabilityGraph) -> String {
    let quoted = |text: &str| {
        let mut safe = String::from("\"");
        for c in text.chars() {
            match c {
                '"' => safe.push_str("#quot;"),
                '<' => safe.push_str("#lt;"),
                '>' => safe.push_str("#gt;"),
                '#' => safe.push_str("#35;"),
                '&' => safe.push_str("#amp;"),
                c => safe.push(c),
            }
        }
        safe + "\""
    };
    let mut numbers = BTreeMap::new();
    let mut lines = vec!["flowchart LR".to_owned()];
    let fates = yank_effects(graph);
    let (mut breaks, mut moves) = (Vec::new(), Vec::new());
    for (number, node) in graph.nodes.iter().enumerate() {
        numbers.insert(node.id.as_str(), number);
        let class = match (node.id == graph.root, node.yanked) {
            (true, _) => ":::root",
            (false, true) => ":::yanked",
            (false, false) => "",
        };
        lines.push(format!("  n{number}[{}]{class}", quoted(&node.id)));
        match fates.get(node.id.as_str()) {
            Some(YankEffect::Breaks) => breaks.push(format!("n{number}")),
            Some(YankEffect::Moves) => moves.push(format!("n{number}")),
            None => {}
        }
    }
    for (index, edge) in graph.edges.iter().enumerate() {
        let Some(from) = numbers.get(edge.from.as_str()) else { continue };
        let label = quoted(&label(edge));
        match edge.to.as_deref().and_then(|to| numbers.get(to)) {
            Some(to) => lines.push(format!("  n{from} -->|{label}| n{to}")),
            None => {
                let missing = quoted(edge.uses.as_str());
                lines.push(format!("  n{from} -.->|{label}| m{index}[{missing}]"));
            }
        }
    }
    lines.push("  classDef root stroke-width:3px".to_owned());
    lines.push("  classDef yanked stroke-dasharray:5 5".to_owned());
    for (nodes, style) in [(breaks, "stroke:red"), (moves, "stroke:orange")] {
        lines.extend(nodes.into_iter().map(|node| format!("  style {node} {style}")));
    }
    lines.join("\n") + "\n"
}
