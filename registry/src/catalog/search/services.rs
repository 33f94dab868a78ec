//! Search on the level of services: the hosts that fitting capabilities talk to.

use std::collections::BTreeMap;

use a2s::Domain;
use a2s_api::{ServiceHit, ServiceMatch};

use super::{RankedHit, SearchService};
use crate::Error;
use crate::store::dependency_rows::ServiceQuery;
use crate::vectors::PointFilter;

/// The maximum number of matches that a response lists for a service.
const MAX_SERVICE_MATCHES: usize = 3;

impl SearchService {
    /// The services that candidates talk to, best first, and the total number of services.
    ///
    /// A hit gives each of its services an equal part of its rank score, because a capability of two services
    /// says less about each of them. The rank of a service is that of its best match. Of two services with
    /// the same rank, the one with more matches comes first.
    pub(super) async fn rank_services(
        &self,
        ranked: &[RankedHit],
        filter: &PointFilter,
        limit: usize,
    ) -> Result<(Vec<ServiceHit>, usize), Error> {
        let mut matches: BTreeMap<Domain, Vec<(f64, ServiceMatch)>> = BTreeMap::new();
        for (ranked, offered) in
            ranked.iter().zip(self.load_offered_summaries(ranked, filter).await?)
        {
            let Some(offered) = offered else { continue };
            let domains = &offered.domains;
            let share = ranked.chosen.rank_score() / domains.len() as f64;
            for domain in domains {
                let found = ServiceMatch {
                    name: ranked.entry.name.clone(),
                    description: offered.description.clone(),
                    score: ranked.merits.score,
                    similarity: ranked.merits.similarity,
                };
                matches.entry(domain.clone()).or_default().push((share, found));
            }
        }
        if !filter.domains.is_empty() {
            matches.retain(|host, _| filter.domains.iter().any(|wanted| wanted == host.as_str()));
        }
        let total = matches.len();
        let mut best: Vec<_> = matches.into_iter().collect();
        for (_, matches) in &mut best {
            matches.sort_by(|(share, a), (other, b)| {
                other.total_cmp(share).then_with(|| a.name.cmp(&b.name))
            });
        }
        let rank = |matches: &[(f64, ServiceMatch)]| matches.first().map_or(0.0, |best| best.0);
        best.sort_by(|(host, a), (other, b)| {
            rank(b)
                .total_cmp(&rank(a))
                .then_with(|| b.len().cmp(&a.len()))
                .then_with(|| host.cmp(other))
        });
        best.truncate(limit);
        let hosts: Vec<_> = best.iter().map(|(host, _)| host.clone()).collect();
        let mut services: BTreeMap<_, _> = self
            .store
            .list_services(ServiceQuery::ByHosts(&hosts))
            .await?
            .into_iter()
            .map(|service| (service.host.clone(), service))
            .collect();
        let hits = best.into_iter().filter_map(|(host, matches)| {
            let matching_capabilities = matches.len();
            let matches = matches.into_iter().map(|(_, found)| found).take(MAX_SERVICE_MATCHES);
            let matches: Vec<_> = matches.collect();
            Some(ServiceHit {
                service: services.remove(&host)?,
                score: matches.first()?.score,
                matching_capabilities,
                matches,
            })
        });
        Ok((hits.collect(), total))
    }
}
