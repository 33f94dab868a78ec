//! The facts of a document that the registry needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2s::{Action, CapabilityName, Complexity, Document, Domain, InputField, Kinds, Unit};
use semver::Version;

use crate::io_matching::Port;
use crate::store::dependency_rows::{Relations, ServiceUse, Side, port_name};

/// Inputs, and outputs, of one document that others are found by.
const MOST_PORTS: usize = 100;
/// The longest title of a service, in characters.
const LONGEST_TITLE: usize = 100;

/// What the registry needs to know of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    pub(crate) name: CapabilityName,
    pub(crate) version: Version,
    pub(crate) description: String,
    pub(crate) domains: Vec<Domain>,
    pub(crate) complexity: Complexity,
    pub(crate) parameters: Vec<InputField>,
    pub(crate) outputs: Vec<Port>,
    /// How somebody would ask for it, by its examples.
    pub(crate) intents: Vec<String>,
    /// Every name that an author goes by, as [`author_key`] writes it.
    pub(crate) authors: BTreeSet<String>,
    pub(crate) services: BTreeSet<ServiceUse>,
    pub(crate) unit: Arc<Unit>,
}

impl Facts {
    pub(crate) fn of(document: &Document) -> Self {
        let (capability, interface) = (document.capability(), document.interface());
        let outputs = interface.outputs.iter().map(|output| Port {
            name: output.name.clone(),
            types: Kinds::of_schema(&output.schema),
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
            services: services_of(document),
            parameters: interface.inputs.clone(),
            unit: Arc::new(Unit::of(capability)),
        }
    }

    /// The rows by which others find it.
    pub(crate) fn relations(&self) -> Relations {
        let taken = self.parameters.iter().take(MOST_PORTS);
        let taken = taken.map(|input| (Side::Taken, port_name(&input.name)));
        let given = self.outputs.iter().take(MOST_PORTS);
        let given = given.map(|output| (Side::Given, port_name(&output.name)));
        Relations {
            uses: self.unit.dependencies.iter().map(|below| below.capability.clone()).collect(),
            services: self.services.clone(),
            permissions: self.unit.permissions.iter().cloned().collect(),
            ports: taken.chain(given).collect(),
        }
    }
}

/// Each domain, with what its own tasks call the service and the format they have.
fn services_of(document: &Document) -> BTreeSet<ServiceUse> {
    let capability = document.capability();
    let mut services = BTreeSet::new();
    capability.for_each_step(|step| {
        let Action::Task { task, .. } = &step.action else { return };
        let host = capability.domains.iter().find(|domain| domain.covers(task.url()));
        services.extend(host.map(|host| {
            ServiceUse {
                host: host.clone(),
                title: task
                    .service_title()
                    .map(|title| title.trim().chars().take(LONGEST_TITLE).collect())
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

/// A name of an author as it is compared: without case, and without the `@` of an account.
pub(crate) fn author_key(name: &str) -> String {
    let name = name.trim();
    name.strip_prefix('@').unwrap_or(name).to_lowercase()
}
