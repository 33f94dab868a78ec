//! The facts of a document that the registry needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::{
    CapabilityName, Complexity, DependencyInterface, Document, Domain, InputField, JsonTypes,
    TaskStep,
};
use semver::Version;

use crate::embed::{EmbeddingSource, IndexedText, index_text};
use crate::io_matching::OutputPort;
use crate::store::dependency_rows::{PortDirection, RelationRows, ServiceUse, normalize_port_name};

/// The maximum number of inputs, and of outputs, of one document that are stored to find it by.
const MAX_PORTS: usize = 100;
/// The maximum length of the title of a service, in characters.
const MAX_TITLE_LENGTH: usize = 100;

/// The facts of a document that the registry uses.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CapabilityFacts {
    pub(crate) name: CapabilityName,
    pub(crate) version: Version,
    pub(crate) description: String,
    pub(crate) domains: Vec<Domain>,
    pub(crate) complexity: Complexity,
    pub(crate) parameters: Vec<InputField>,
    pub(crate) outputs: Vec<OutputPort>,
    /// The intents of its examples.
    pub(crate) intents: Vec<String>,
    /// All names of each author, normalised by [`author_key`].
    pub(crate) authors: BTreeSet<String>,
    pub(crate) services: BTreeSet<ServiceUse>,
    pub(crate) dependency_interface: Arc<DependencyInterface>,
}

impl CapabilityFacts {
    pub(crate) fn from_document(document: &Document) -> Self {
        let (capability, interface) = (document.capability(), document.interface());
        let outputs = interface.outputs.iter().map(|output| OutputPort {
            name: output.name.clone(),
            types: JsonTypes::from_schema(&output.schema),
        });
        let authors = capability.authors.iter().flat_map(|author| {
            let others = [&author.organization, &author.github].into_iter().flatten();
            std::iter::once(&author.name).chain(others).map(|name| author_key(name))
        });
        Self {
            name: capability.name.clone(),
            version: capability.version.clone(),
            description: capability.description.clone(),
            domains: capability.domains.clone(),
            complexity: interface.complexity,
            outputs: outputs.collect(),
            intents: capability.examples.iter().filter_map(|e| e.intent.clone()).collect(),
            authors: authors.collect(),
            services: find_service_uses(document),
            parameters: interface.inputs.clone(),
            dependency_interface: Arc::new(DependencyInterface::from_capability(capability)),
        }
    }

    /// Returns the texts under which the search index has the document.
    pub(crate) fn to_index_text(&self) -> IndexedText {
        let parameters: Vec<_> = self
            .parameters
            .iter()
            .map(|parameter| {
                (parameter.name.as_str(), parameter.description.as_deref().unwrap_or_default())
            })
            .collect();
        let domains: Vec<_> = self.domains.iter().map(Domain::as_str).collect();
        let intents: Vec<_> = self.intents.iter().map(String::as_str).collect();
        index_text(&EmbeddingSource {
            name: self.name.as_str(),
            description: &self.description,
            parameters: &parameters,
            domains: &domains,
            intents: &intents,
        })
    }

    /// Returns the rows by which other capabilities find this one.
    pub(crate) fn to_relation_rows(&self) -> RelationRows {
        let taken = self.parameters.iter().take(MAX_PORTS);
        let taken = taken.map(|input| (PortDirection::Input, normalize_port_name(&input.name)));
        let given = self.outputs.iter().take(MAX_PORTS);
        let given = given.map(|output| (PortDirection::Output, normalize_port_name(&output.name)));
        RelationRows {
            uses: self
                .dependency_interface
                .dependencies
                .iter()
                .map(|below| below.capability.clone())
                .collect(),
            services: self.services.clone(),
            permissions: self.dependency_interface.permissions.iter().cloned().collect(),
            ports: taken.chain(given).collect(),
        }
    }
}

/// Returns each domain with the service title and the format in the document's own tasks.
fn find_service_uses(document: &Document) -> BTreeSet<ServiceUse> {
    let capability = document.capability();
    let mut services = BTreeSet::new();
    capability.for_each_task(|_, TaskStep { task, .. }| {
        let host = capability.domains.iter().find(|domain| domain.covers(task.url()));
        services.extend(host.map(|host| {
            ServiceUse {
                host: host.clone(),
                title: task
                    .service_title()
                    .map(|title| title.trim().chars().take(MAX_TITLE_LENGTH).collect())
                    .filter(|title: &String| !title.is_empty()),
                format: Some(task.format()),
            }
        }));
    });
    for host in &capability.domains {
        if !services.iter().any(|service: &ServiceUse| service.host == *host) {
            services.insert(ServiceUse { host: host.clone(), title: None, format: None });
        }
    }
    services
}

/// Normalises the name of an author for comparison: in lower case, and without the `@` of an account.
pub(crate) fn author_key(name: &str) -> String {
    let name = name.trim();
    name.strip_prefix('@').unwrap_or(name).to_lowercase()
}
