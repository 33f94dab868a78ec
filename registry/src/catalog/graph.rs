//! The graph of capabilities: dependencies, shared services, compatible inputs and outputs.
//!
//! Rows only find versions; everything else is read from their checked documents. The resolver of `a2s`
//! interprets dependencies, as it does when a document is published.

mod impact;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use a2s::{
    CandidateVersion as _, CapabilityName, Dependency, DependencyIndex, Digest, InputField,
    JsonTypes, VersionInfo,
};
use a2s_api::{
    CapabilityGraph, CompatibleIo, GraphEdge, GraphNode, PrerequisiteSearch, SharedService,
};

use super::prerequisite_searches::find_prerequisite_searches;
use super::{FetchedVersion, VersionReader, VersionSelection};
use crate::Error;
use crate::documents::{CapabilityFacts, VerifiedDocument};
use crate::io_matching::{self, IoMatch, OutputPort};
use crate::store::VersionEntry;
use crate::store::dependency_rows::{PortDirection, ServiceQuery, normalize_port_name};

/// The maximum number of dependents of one version that a graph checks.
const MAX_DEPENDENTS: usize = 256;
/// The maximum number of documents that are read for one graph.
const MAX_DOCUMENTS: usize = 2048;
/// The maximum number of other capabilities that a graph lists for a service.
const MAX_SHARING: u32 = 20;
/// The most capabilities that are compared with one, and the most pairs in a response.
const MAX_COMPARED: u32 = 500;
const MAX_MATCHES: usize = 50;

/// A version, and its checked document.
struct GraphVersion {
    entry: VersionEntry,
    document: VerifiedDocument,
}

impl GraphVersion {
    fn dependencies(&self) -> &[Dependency] {
        &self.document.facts.dependency_interface.dependencies
    }

    fn id(&self) -> String {
        format!("{}@{}", self.entry.name, self.entry.version)
    }
}

/// The graph around a version: its dependencies and dependents within `depth` steps, the capabilities
/// that share its services, and compatible inputs and outputs.
///
/// # Errors
/// When there is no such version, its document or that of a dependency is damaged, or the dependencies
/// have too many documents.
pub(crate) async fn build_graph(
    versions: &VersionReader,
    name: &CapabilityName,
    selector: &VersionSelection,
    depth: usize,
    with_impact: bool,
) -> Result<CapabilityGraph, Error> {
    let FetchedVersion { entry, document: opened } = versions.fetch(name, selector).await?;
    let root = GraphVersion { entry, document: opened };
    let (above, is_cut) = find_dependents(versions, &root.entry.name).await?;
    let mut dependency_index = DependencyIndex::default();
    dependency_index
        .add_versions(&root.entry.name, list_version_infos(versions, &root.entry.name).await?);
    let all = std::iter::once(&root).chain(&above);
    let dependencies: Vec<_> = all.flat_map(GraphVersion::dependencies).cloned().collect();
    versions.documents.load_missing(&mut dependency_index, &dependencies, MAX_DOCUMENTS).await?;

    let digest = root.entry.digest;
    let leads_here = |known: &GraphVersion| {
        dependency_index.closure(known.dependencies()).iter().any(|pin| pin.checksum == digest)
    };
    let dependants: Vec<_> = above.into_iter().filter(leads_here).collect();
    let mut web = DependencyWeb::new(&dependency_index, &root, &dependants);
    web.walk(depth);
    let (nodes, edges) = web.collect_reached();
    let impact = if with_impact {
        Some(
            impact::compute_impact(
                &versions.documents,
                &root,
                &dependants,
                &dependency_index,
                &dependencies,
            )
            .await?,
        )
    } else {
        None
    };
    let facts = &root.document.facts;
    let searches = find_prerequisite_searches(
        &*versions.store,
        &facts.name,
        &facts.domains,
        &facts.parameters,
    );
    let prerequisites = searches.await?.into_iter().map(|(entry, input)| PrerequisiteSearch {
        capability: entry.name,
        version: entry.version,
        input,
    });
    Ok(CapabilityGraph {
        prerequisites: prerequisites.collect(),
        root: root.id(),
        nodes,
        edges,
        services: find_shared_services(versions, facts).await?,
        consumers: find_compatible_io(versions, facts, PortDirection::Output).await?,
        producers: find_compatible_io(versions, facts, PortDirection::Input).await?,
        impact,
        truncated: is_cut || web.is_truncated,
    })
}

/// Returns the versions that may use a capability directly or through others, without yanked ones. The
/// flag is true when there are more. The search does not continue from a damaged version. It continues
/// from a yanked one, because other versions may pin it.
async fn find_dependents(
    versions: &VersionReader,
    name: &CapabilityName,
) -> Result<(Vec<GraphVersion>, bool), Error> {
    let mut names = BTreeSet::from([name.clone()]);
    let mut fresh = vec![name.clone()];
    let (mut seen, mut above, mut yanked) = (BTreeSet::new(), Vec::new(), 0);
    while !fresh.is_empty() {
        let most = MAX_DEPENDENTS + 1;
        let entries =
            versions.store.list_dependents(&fresh, u32::try_from(most).unwrap_or(u32::MAX)).await?;
        let entries: Vec<_> = entries.into_iter().filter(|entry| seen.insert(entry.id)).collect();
        fresh = Vec::new();
        for (entry, opened) in versions.documents.open(&entries).await? {
            let Ok(opened) = opened else { continue };
            if above.len() + yanked == MAX_DEPENDENTS {
                return Ok((above, true));
            }
            if names.insert(entry.name.clone()) {
                fresh.push(entry.name.clone());
            }
            match entry.yanked {
                true => yanked += 1,
                false => above.push(GraphVersion { entry: entry.clone(), document: opened }),
            }
        }
    }
    Ok((above, false))
}

async fn list_version_infos(
    versions: &VersionReader,
    name: &CapabilityName,
) -> Result<Vec<VersionInfo>, Error> {
    Ok(versions
        .store
        .list_versions(name)
        .await?
        .iter()
        .map(VersionEntry::to_version_info)
        .collect())
}

async fn find_shared_services(
    versions: &VersionReader,
    facts: &CapabilityFacts,
) -> Result<Vec<SharedService>, Error> {
    let services = versions.store.list_services(ServiceQuery::ByHosts(&facts.domains)).await?;
    let mut shared = Vec::with_capacity(facts.domains.len());
    for host in &facts.domains {
        let entries = versions.store.live_versions_of_service(host, None, MAX_SHARING + 1).await?;
        let others = entries.iter().filter(|entry| entry.name != facts.name);
        let capabilities =
            others.take(MAX_SHARING as usize).map(|entry| entry.name.clone()).collect();
        let service = services.iter().find(|service| service.host == *host);
        let total = service.map_or(0, |service| service.capabilities);
        shared.push(SharedService { host: host.clone(), capabilities, total });
    }
    Ok(shared)
}

/// Other live capabilities that can use the outputs of this one, or produce its inputs. Pairs whose
/// types are known come first, then pairs with a required input.
async fn find_compatible_io(
    versions: &VersionReader,
    facts: &CapabilityFacts,
    side: PortDirection,
) -> Result<Vec<CompatibleIo>, Error> {
    let (names, others): (BTreeSet<_>, _) = match side {
        PortDirection::Output => {
            let names = facts.outputs.iter().map(|output| normalize_port_name(&output.name));
            (names.collect(), PortDirection::Input)
        }
        PortDirection::Input => {
            let names = facts.parameters.iter().map(|input| normalize_port_name(&input.name));
            (names.collect(), PortDirection::Output)
        }
    };
    let names: Vec<_> = names.into_iter().collect();
    let entries = versions.store.live_versions_with_port(others, &names, MAX_COMPARED).await?;
    let mut feeds = Vec::new();
    for (entry, opened) in versions.documents.open(&entries).await? {
        let Ok(VerifiedDocument { facts: other, .. }) = opened else { continue };
        if other.name == facts.name {
            continue;
        }
        let (outputs, inputs): (&[OutputPort], &[InputField]) = match side {
            PortDirection::Output => (&facts.outputs, &other.parameters),
            PortDirection::Input => (&other.outputs, &facts.parameters),
        };
        let fits = io_matching::match_outputs(outputs, inputs).into_iter();
        feeds.extend(fits.map(|fit| (fit.typed, to_compatible_io(entry, &fit))));
    }
    feeds.sort_by(|(typed, a), (other, b)| {
        let key =
            |feed: &CompatibleIo| (!feed.required, feed.capability.clone(), feed.input.clone());
        other.cmp(typed).then_with(|| key(a).cmp(&key(b)))
    });
    feeds.truncate(MAX_MATCHES);
    Ok(feeds.into_iter().map(|(_, feed)| feed).collect())
}

fn to_compatible_io(
    other: &VersionEntry,
    IoMatch { output, input, .. }: &IoMatch<'_>,
) -> CompatibleIo {
    CompatibleIo {
        capability: other.name.clone(),
        version: other.version.clone(),
        output: output.name.clone(),
        output_type: output.types.describe(),
        input: input.name.clone(),
        input_type: JsonTypes::from_schema(&input.schema).describe(),
        required: input.required,
    }
}

/// The versions around one version, with their current dependencies on each other.
struct DependencyWeb<'w> {
    root: Digest,
    nodes: BTreeMap<Digest, GraphNode>,
    /// The uses: the dependent, its dependency, and the version that the dependency resolves to.
    edges: Vec<(Digest, &'w Dependency, Option<Digest>)>,
    /// The nodes within the requested depth of the root.
    reached: BTreeSet<Digest>,
    is_truncated: bool,
}

impl<'w> DependencyWeb<'w> {
    fn new(
        dependency_index: &'w DependencyIndex,
        root: &'w GraphVersion,
        dependants: &'w [GraphVersion],
    ) -> Self {
        let mut nodes = BTreeMap::new();
        let mut edges = Vec::new();
        let mut waiting: VecDeque<(Digest, &'w [Dependency])> = VecDeque::new();
        for known in std::iter::once(root).chain(dependants) {
            let VersionEntry { name, digest, .. } = &known.entry;
            nodes.insert(*digest, to_node(name, &known.entry.to_version_info()));
            waiting.push_back((*digest, known.dependencies()));
        }
        let mut seen = BTreeSet::new();
        while let Some((from, dependencies)) = waiting.pop_front() {
            if !seen.insert(from) {
                continue;
            }
            for dependency in dependencies {
                let versions =
                    dependency_index.versions(&dependency.capability).unwrap_or_default();
                let chosen = dependency.select_version(versions);
                edges.push((from, dependency, chosen.map(|chosen| chosen.checksum())));
                let Some(chosen) = chosen else { continue };
                nodes
                    .entry(chosen.checksum)
                    .or_insert_with(|| to_node(&dependency.capability, chosen));
                if let Some(unit) = dependency_index.interface(chosen.checksum) {
                    waiting.push_back((chosen.checksum, &unit.dependencies));
                }
            }
        }
        Self {
            root: root.entry.digest,
            nodes,
            edges,
            reached: BTreeSet::new(),
            is_truncated: false,
        }
    }

    /// Marks the nodes that are at most `depth` steps below or above the root.
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
                self.is_truncated |= step == depth && !next.is_empty();
                level = next;
            }
        }
    }

    /// Returns the nodes within reach, the root first, and the edges between them.
    fn collect_reached(&self) -> (Vec<GraphNode>, Vec<GraphEdge>) {
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

fn to_node(name: &CapabilityName, listing: &VersionInfo) -> GraphNode {
    GraphNode {
        id: format!("{name}@{}", listing.version),
        name: name.clone(),
        version: listing.version.clone(),
        checksum: listing.checksum,
        yanked: listing.yanked,
    }
}
