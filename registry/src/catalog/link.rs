//! What a document's dependencies stand for, as the linker wants to know it.

use std::collections::{BTreeMap, BTreeSet};

use a2s::{Candidate, Capability, CapabilityName, Dependency, Domain};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::Catalog;
use crate::Error;
use crate::store::{Entry, VersionId};

/// The longest chain that is followed; the linker refuses shorter ones already.
const LONGEST_CHAIN: usize = 16;
/// Versions that are looked at for one document; a tree that is larger is refused.
const MOST_VERSIONS: usize = 512;

/// What stands below a version, itself included in `depth` only.
#[derive(Debug, Clone, Default)]
struct Reach {
    domains: Vec<Domain>,
    uses: BTreeSet<CapabilityName>,
    depth: usize,
}

impl Catalog {
    /// All published versions of each dependency. Those that the document means have everything
    /// filled in, from their own, checked documents; of the others the linker needs only version,
    /// digest and whether they are yanked.
    ///
    /// # Errors
    /// When the store does not answer, or a document below is damaged.
    pub(super) async fn find_candidates(
        &self,
        capability: &Capability,
    ) -> Result<BTreeMap<CapabilityName, Vec<Candidate>>, Error> {
        let mut known = BTreeMap::new();
        let mut published = BTreeMap::new();
        for dependency in &capability.dependencies {
            let entries = self.store.versions(&dependency.capability).await?;
            let mut candidates: Vec<_> = entries.iter().map(to_candidate).collect();
            if let Some(chosen) = choose(dependency, &entries) {
                let reach = self.reach(chosen, &mut known, 0).await?;
                for candidate in &mut candidates {
                    if candidate.version == chosen.version {
                        candidate.domains.clone_from(&reach.domains);
                        candidate.uses = reach.uses.iter().cloned().collect();
                        candidate.depth = reach.depth;
                    }
                }
            }
            published.insert(dependency.capability.clone(), candidates);
        }
        Ok(published)
    }

    fn reach<'a>(
        &'a self,
        entry: &'a Entry,
        known: &'a mut BTreeMap<VersionId, Reach>,
        chain: usize,
    ) -> BoxFuture<'a, Result<Reach, Error>> {
        async move {
            if let Some(reach) = known.get(&entry.id) {
                return Ok(reach.clone());
            }
            if known.len() >= MOST_VERSIONS {
                return Err(Error::TooManyBelow { most: MOST_VERSIONS });
            }
            let facts = self.documents.open_one(entry).await?.facts;
            let mut reach = Reach { domains: facts.domains.clone(), ..Reach::default() };
            // A chain that leads back to itself ends here; the cycle is refused by the name of the
            // document that closes it.
            known.insert(entry.id, reach.clone());
            for dependency in facts.dependencies.iter().filter(|_| chain < LONGEST_CHAIN) {
                reach.uses.insert(dependency.capability.clone());
                let entries = self.store.versions(&dependency.capability).await?;
                if let Some(chosen) = choose(dependency, &entries) {
                    let below = self.reach(chosen, known, chain + 1).await?;
                    reach.uses.extend(below.uses);
                    reach.depth = reach.depth.max(below.depth + 1);
                }
            }
            known.insert(entry.id, reach.clone());
            Ok(reach)
        }
        .boxed()
    }
}

fn choose<'e>(dependency: &Dependency, entries: &'e [Entry]) -> Option<&'e Entry> {
    let candidates: Vec<_> = entries.iter().map(to_candidate).collect();
    let chosen = dependency.choose(&candidates)?;
    entries.iter().find(|entry| entry.version == chosen.version)
}

fn to_candidate(entry: &Entry) -> Candidate {
    Candidate {
        version: entry.version.clone(),
        checksum: entry.digest,
        yanked: entry.yanked,
        domains: Vec::new(),
        uses: Vec::new(),
        depth: 0,
    }
}
