//! The graph of capabilities: dependencies, shared services, compatible inputs and outputs.
//!
//! Rows lead to versions, and their checked documents say the rest: what a dependency means is for
//! the linker of `a2s` to say, here as when a document is published.

mod impact;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use a2s::api::{CapabilityGraph, CompatibleIo, GraphEdge, GraphNode, SharedService};
use a2s::{CapabilityName, Dependency, Digest, InputField, Kinds, Listing, Release as _, Shelf};

use super::{Catalog, Fetched, Selector};
use crate::Error;
use crate::documents::{Facts, Opened};
use crate::io_matching::{self, Fit, Port};
use crate::store::Entry;
use crate::store::dependency_rows::{Hosts, Side, port_name};

/// Versions that may lead to one, of which each is looked at.
const MOST_ABOVE: usize = 256;
/// Documents that are looked at for one graph.
const MOST_DOCUMENTS: usize = 2048;
/// Other capabilities that are named of a service.
const MOST_SHARING: u32 = 20;
/// Capabilities that are compared with one, and pairs that are told.
const MOST_COMPARED: u32 = 500;
const MOST_FEEDS: usize = 50;

/// A version, and its checked document.
struct Known {
    entry: Entry,
    opened: Opened,
}

impl Known {
    fn dependencies(&self) -> &[Dependency] {
        &self.opened.facts.unit.dependencies
    }

    fn id(&self) -> String {
        format!("{}@{}", self.entry.name, self.entry.version)
    }
}

impl Catalog {
    /// What a version leads to and what leads to it, at most so many steps away, and what else it
    /// has to do with.
    ///
    /// # Errors
    /// When there is no such version, its document or one that it leads to is damaged, or too many
    /// documents hang together.
    pub(crate) async fn graph(
        &self,
        name: &CapabilityName,
        selector: &Selector,
        depth: usize,
        with_impact: bool,
    ) -> Result<CapabilityGraph, Error> {
        let Fetched { entry, opened } = self.fetch(name, selector).await?;
        let root = Known { entry, opened };
        let (above, is_cut) = self.above(&root.entry.name).await?;
        let mut shelf = Shelf::default();
        shelf.list(&root.entry.name, self.listings(&root.entry.name).await?);
        let all = std::iter::once(&root).chain(&above);
        let dependencies: Vec<_> = all.flat_map(Known::dependencies).cloned().collect();
        self.documents.fill(&mut shelf, &dependencies, MOST_DOCUMENTS).await?;

        let digest = root.entry.digest;
        let leads_here = |known: &Known| {
            shelf.closure(known.dependencies()).iter().any(|pin| pin.checksum == digest)
        };
        let dependants: Vec<_> = above.into_iter().filter(leads_here).collect();
        let mut web = Web::new(&shelf, &root, &dependants);
        web.walk(depth);
        let (nodes, edges) = web.told();
        let impact = if with_impact {
            Some(self.impact(&root, &dependants, &shelf, &dependencies).await?)
        } else {
            None
        };
        let facts = &root.opened.facts;
        Ok(CapabilityGraph {
            root: root.id(),
            nodes,
            edges,
            services: self.shared_services(facts).await?,
            consumers: self.feeds(facts, Side::Given).await?,
            producers: self.feeds(facts, Side::Taken).await?,
            impact,
            truncated: is_cut || web.is_cut,
        })
    }

    /// The versions that may lead to a capability, yanked ones left out, and whether there are
    /// more. A damaged one leads nowhere; a yanked one leads on for those that pin it.
    async fn above(&self, name: &CapabilityName) -> Result<(Vec<Known>, bool), Error> {
        let mut names = BTreeSet::from([name.clone()]);
        let mut fresh = vec![name.clone()];
        let (mut seen, mut above, mut yanked) = (BTreeSet::new(), Vec::new(), 0);
        while !fresh.is_empty() {
            let most = MOST_ABOVE + 1;
            let entries = self.store.users(&fresh, u32::try_from(most).unwrap_or(u32::MAX)).await?;
            let entries: Vec<_> =
                entries.into_iter().filter(|entry| seen.insert(entry.id)).collect();
            fresh = Vec::new();
            for (entry, opened) in self.documents.open(&entries).await? {
                let Ok(opened) = opened else { continue };
                if above.len() + yanked == MOST_ABOVE {
                    return Ok((above, true));
                }
                if names.insert(entry.name.clone()) {
                    fresh.push(entry.name.clone());
                }
                match entry.yanked {
                    true => yanked += 1,
                    false => above.push(Known { entry: entry.clone(), opened }),
                }
            }
        }
        Ok((above, false))
    }

    async fn listings(&self, name: &CapabilityName) -> Result<Vec<Listing>, Error> {
        Ok(self.store.versions(name).await?.iter().map(Entry::to_listing).collect())
    }

    async fn shared_services(&self, facts: &Facts) -> Result<Vec<SharedService>, Error> {
        let services = self.store.services(Hosts::Of(&facts.domains)).await?;
        let mut shared = Vec::with_capacity(facts.domains.len());
        for host in &facts.domains {
            let entries = self.store.heads_at(host, None, MOST_SHARING + 1).await?;
            let others = entries.iter().filter(|entry| entry.name != facts.name);
            let capabilities =
                others.take(MOST_SHARING as usize).map(|entry| entry.name.clone()).collect();
            let service = services.iter().find(|service| service.host == *host);
            let total = service.map_or(0, |service| service.capabilities);
            shared.push(SharedService { host: host.clone(), capabilities, total });
        }
        Ok(shared)
    }

    /// What other live capabilities can take of what this one gives, or the other way round. Pairs
    /// of which more is known than the names come first, then those that a run needs.
    async fn feeds(&self, facts: &Facts, side: Side) -> Result<Vec<CompatibleIo>, Error> {
        let (names, others): (BTreeSet<_>, _) = match side {
            Side::Given => {
                let names = facts.outputs.iter().map(|output| port_name(&output.name));
                (names.collect(), Side::Taken)
            }
            Side::Taken => {
                let names = facts.parameters.iter().map(|input| port_name(&input.name));
                (names.collect(), Side::Given)
            }
        };
        let names: Vec<_> = names.into_iter().collect();
        let entries = self.store.heads_with(others, &names, MOST_COMPARED).await?;
        let mut feeds = Vec::new();
        for (entry, opened) in self.documents.open(&entries).await? {
            let Ok(Opened { facts: other, .. }) = opened else { continue };
            if other.name == facts.name {
                continue;
            }
            let (outputs, inputs): (&[Port], &[InputField]) = match side {
                Side::Given => (&facts.outputs, &other.parameters),
                Side::Taken => (&other.outputs, &facts.parameters),
            };
            let fits = io_matching::fits(outputs, inputs).into_iter();
            feeds.extend(fits.map(|fit| (fit.typed, to_feed(entry, &fit))));
        }
        feeds.sort_by(|(typed, a), (other, b)| {
            let key =
                |feed: &CompatibleIo| (!feed.required, feed.capability.clone(), feed.input.clone());
            other.cmp(typed).then_with(|| key(a).cmp(&key(b)))
        });
        feeds.truncate(MOST_FEEDS);
        Ok(feeds.into_iter().map(|(_, feed)| feed).collect())
    }
}

fn to_feed(other: &Entry, Fit { output, input, .. }: &Fit<'_>) -> CompatibleIo {
    CompatibleIo {
        capability: other.name.clone(),
        version: other.version.clone(),
        output: output.name.clone(),
        output_type: output.types.describe(),
        input: input.name.clone(),
        input_type: Kinds::of_schema(&input.schema).describe(),
        required: input.required,
    }
}

/// The versions around one, as they use each other today.
struct Web<'w> {
    root: Digest,
    nodes: BTreeMap<Digest, GraphNode>,
    /// Who uses what.
    edges: Vec<(Digest, &'w Dependency, Option<Digest>)>,
    /// The nodes within reach.
    reached: BTreeSet<Digest>,
    is_cut: bool,
}

impl<'w> Web<'w> {
    fn new(shelf: &'w Shelf, root: &'w Known, dependants: &'w [Known]) -> Self {
        let mut nodes = BTreeMap::new();
        let mut edges = Vec::new();
        let mut waiting: VecDeque<(Digest, &'w [Dependency])> = VecDeque::new();
        for known in std::iter::once(root).chain(dependants) {
            let Entry { name, digest, .. } = &known.entry;
            nodes.insert(*digest, to_node(name, &known.entry.to_listing()));
            waiting.push_back((*digest, known.dependencies()));
        }
        let mut seen = BTreeSet::new();
        while let Some((from, dependencies)) = waiting.pop_front() {
            if !seen.insert(from) {
                continue;
            }
            for dependency in dependencies {
                let versions = shelf.versions(&dependency.capability).unwrap_or_default();
                let chosen = dependency.choose(versions);
                edges.push((from, dependency, chosen.map(|chosen| chosen.checksum())));
                let Some(chosen) = chosen else { continue };
                nodes
                    .entry(chosen.checksum)
                    .or_insert_with(|| to_node(&dependency.capability, chosen));
                if let Some(unit) = shelf.unit(chosen.checksum) {
                    waiting.push_back((chosen.checksum, &unit.dependencies));
                }
            }
        }
        Self { root: root.entry.digest, nodes, edges, reached: BTreeSet::new(), is_cut: false }
    }

    /// Reaches what is at most so many steps below the root, or above it.
    fn walk(&mut self, depth: usize) {
        for is_down in [true, false] {
            let mut level = BTreeSet::from([self.root]);
            for step in 0..=depth {
                self.reached.extend(&level);
                let ways = self.edges.iter().filter_map(|(from, _, to)| Some((*from, (*to)?)));
                let next: BTreeSet<_> = ways
                    .map(|(from, to)| if is_down { (from, to) } else { (to, from) })
                    .filter(|(near, far)| level.contains(near) && !self.reached.contains(far))
                    .map(|(_, far)| far)
                    .collect();
                self.is_cut |= step == depth && !next.is_empty();
                level = next;
            }
        }
    }

    /// The nodes within reach, and the edges between them; the root first.
    fn told(&self) -> (Vec<GraphNode>, Vec<GraphEdge>) {
        let reached =
            |digest: &Digest| self.nodes.get(digest).filter(|_| self.reached.contains(digest));
        let mut nodes: Vec<_> = self.reached.iter().filter_map(reached).cloned().collect();
        let is_other = |node: &GraphNode| node.checksum != self.root;
        nodes.sort_by(|a, b| {
            (is_other(a), &a.name, &a.version).cmp(&(is_other(b), &b.name, &b.version))
        });
        let mut edges: Vec<_> = self
            .edges
            .iter()
            .filter_map(|(from, dependency, to)| {
                let to = match to {
                    Some(to) => Some(reached(to)?.id.clone()),
                    None => None,
                };
                Some(GraphEdge {
                    from: reached(from)?.id.clone(),
                    to,
                    uses: dependency.capability.clone(),
                    range: dependency.range.to_string(),
                    pinned: dependency.checksum.is_some(),
                })
            })
            .collect();
        edges.sort_by(|a, b| (&a.from, &a.uses).cmp(&(&b.from, &b.uses)));
        (nodes, edges)
    }
}

fn to_node(name: &CapabilityName, listing: &Listing) -> GraphNode {
    GraphNode {
        id: format!("{name}@{}", listing.version),
        name: name.clone(),
        version: listing.version.clone(),
        checksum: listing.checksum,
        yanked: listing.yanked,
    }
}
