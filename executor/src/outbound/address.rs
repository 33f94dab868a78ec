//! The addresses that may be reached. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use crate::error::{Error, ErrorKind};

/// The targets that the configuration allows in addition to the public internet.
#[derive(Debug, Default)]
pub(super) struct AllowedTargets {
    networks: Vec<IpNet>,
    hosts: Vec<String>,
}

impl AllowedTargets {
    /// Reads addresses (`127.0.0.1`), networks (`10.1.0.0/16`) and host names (`localhost`).
    pub(super) fn parse(texts: &[String]) -> Result<Self, Error> {
        let mut allowed = Self::default();
        for text in texts {
            if let Ok(network) = text.parse::<IpNet>() {
                allowed.networks.push(network);
            } else if let Ok(address) = text.parse::<IpAddr>() {
                allowed.networks.push(address.into());
            } else {
                match Host::parse(text) {
                    Ok(Host::Domain(name)) if !name.is_empty() => allowed.hosts.push(name),
                    _ => {
                        let message = format!(
                            "the allowed address {text:?} is neither an address, nor a network \
                             such as 10.0.0.0/8, nor a host name"
                        );
                        return Err(Error::new(ErrorKind::Configuration, message));
                    }
                }
            }
        }
        Ok(allowed)
    }

    /// Returns true when a host of this name may have any address.
    pub(super) fn has_host(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.');
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    fn has_address(&self, address: IpAddr) -> bool {
        let is_metadata = is_metadata(address);
        self.networks.iter().any(|network| match is_metadata {
            // A network never opens where a cloud keeps credentials.
            true => network.addr() == address && network.prefix_len() == network.max_prefix_len(),
            false => network.contains(&address),
        })
    }
}

/// Checks an address as written, before a name is resolved. The URL parser has already converted the many
/// spellings of an address (decimal, octal, hexadecimal, shortened) to one.
///
/// # Errors
/// Returns the violated rule.
pub(super) fn check(url: &Url, allowed: &AllowedTargets) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only http and https are supported".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address must not contain a user name or a password".to_owned());
    }
    if url.port() == Some(0) {
        return Err("port 0 is not valid".to_owned());
    }
    match url.host() {
        None => Err("the address has no host".to_owned()),
        Some(Host::Domain(name)) if name.trim_end_matches('.').is_empty() => {
            Err("the address has no host".to_owned())
        }
        // Loopback by definition (RFC 6761, section 6.3), whatever a resolver knows of it.
        Some(Host::Domain(name)) if is_localhost(name) && !allowed.has_host(name) => {
            check_address(Ipv4Addr::LOCALHOST.into(), allowed)
        }
        // Other names are checked where they are resolved.
        Some(Host::Domain(_)) => Ok(()),
        Some(Host::Ipv4(address)) => check_address(address.into(), allowed),
        Some(Host::Ipv6(address)) => check_address(address.into(), allowed),
    }
}

fn is_localhost(name: &str) -> bool {
    let last = name.trim_end_matches('.').rsplit('.').next();
    last.is_some_and(|label| label.eq_ignore_ascii_case("localhost"))
}

/// Checks the address of a connection.
///
/// # Errors
/// Returns the violated rule.
pub(super) fn check_address(address: IpAddr, allowed: &AllowedTargets) -> Result<(), String> {
    match broken_rule(address) {
        Some(rule) if !allowed.has_address(address) => Err(format!("{address} is {rule}")),
        Some(_) | None => Ok(()),
    }
}

/// The addresses at which clouds provide a machine with its credentials and settings: AWS, Azure, Google
/// and most others, AWS for containers and for IPv6, Alibaba, Oracle, and the host of Azure.
const METADATA: [IpAddr; 9] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 253)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
];

/// Returns true when an address serves credentials of a cloud; also in its IPv6 forms.
fn is_metadata(address: IpAddr) -> bool {
    METADATA.contains(&address.to_canonical())
}

/// The kind of an address that is not on the public internet (the special-purpose registries of IANA, and
/// the addresses where clouds keep credentials).
fn broken_rule(address: IpAddr) -> Option<&'static str> {
    if is_metadata(address) {
        return Some("a metadata address of a cloud");
    }
    match address {
        IpAddr::V4(address) => broken_rule_v4(address),
        IpAddr::V6(address) => broken_rule_v6(address),
    }
}

fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

fn broken_rule_v4(address: Ipv4Addr) -> Option<&'static str> {
    let rules = [
        (v4(0, 0, 0, 0, 8), "an address of this network"),
        (v4(10, 0, 0, 0, 8), "a private address"),
        (v4(100, 64, 0, 0, 10), "a shared address of a provider"),
        (v4(127, 0, 0, 0, 8), "a loopback address"),
        (v4(168, 63, 129, 16, 32), "a metadata address of a cloud"),
        (v4(169, 254, 169, 254, 32), "a metadata address of a cloud"),
        (v4(169, 254, 0, 0, 16), "a link-local address"),
        (v4(172, 16, 0, 0, 12), "a private address"),
        (v4(192, 0, 0, 0, 24), "an address for protocols"),
        (v4(192, 0, 2, 0, 24), "an address for documentation"),
        (v4(192, 88, 99, 0, 24), "an address of a 6to4 relay"),
        (v4(192, 168, 0, 0, 16), "a private address"),
        (v4(198, 18, 0, 0, 15), "an address for measurements"),
        (v4(198, 51, 100, 0, 24), "an address for documentation"),
        (v4(203, 0, 113, 0, 24), "an address for documentation"),
        (v4(224, 0, 0, 0, 4), "a multicast address"),
        (v4(240, 0, 0, 0, 4), "a reserved address"),
    ];
    rules.into_iter().find(|(network, _)| network.contains(&address)).map(|(_, rule)| rule)
}

fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

fn broken_rule_v6(address: Ipv6Addr) -> Option<&'static str> {
    let [.., high, low] = address.segments();
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    let embedded = Ipv4Addr::new(a, b, c, d);
    if address.to_ipv4_mapped().is_some() {
        return broken_rule_v4(embedded);
    }
    // NAT64 (RFC 6052): networks without IPv4 reach the public one through it.
    if v6(0x64, 0xff9b, 0, 96).contains(&address) {
        return broken_rule_v4(embedded);
    }
    let rules = [
        (v6(0xfc00, 0, 0, 7), "a private address"),
        (v6(0xfe80, 0, 0, 10), "a link-local address"),
        (v6(0xfec0, 0, 0, 10), "a site-local address"),
        (v6(0xff00, 0, 0, 8), "a multicast address"),
        (v6(0x2001, 0, 0, 23), "an address for protocols and tunnels"),
        (v6(0x2001, 0xdb8, 0, 32), "an address for documentation"),
        (v6(0x2002, 0, 0, 16), "an address of a 6to4 tunnel"),
        (v6(0x3fff, 0, 0, 20), "an address for documentation"),
    ];
    if address.is_loopback() {
        return Some("a loopback address");
    }
    if address.is_unspecified() {
        return Some("an address of this network");
    }
    if let Some((_, rule)) = rules.into_iter().find(|(network, _)| network.contains(&address)) {
        return Some(rule);
    }
    let is_global = v6(0x2000, 0, 0, 3).contains(&address);
    (!is_global).then_some("a reserved address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn rule_of(address: &str) -> Option<&'static str> {
        broken_rule(address.parse().unwrap())
    }

    #[test]
    fn the_public_internet_may_be_reached() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.0.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert_eq!(rule_of(address), None, "{address}");
        }
    }

    #[test]
    fn special_addresses_may_not() {
        for (address, rule) in [
            ("0.0.0.0", "this network"),
            ("0.1.2.3", "this network"),
            ("10.255.0.1", "private"),
            ("100.64.0.1", "shared"),
            ("100.100.100.200", "metadata"),
            ("169.254.170.2", "metadata"),
            ("100.100.100.201", "shared"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("168.63.129.16", "metadata"),
            ("169.254.169.254", "metadata"),
            ("169.254.0.1", "link-local"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.192", "metadata"),
            ("192.0.0.193", "protocols"),
            ("192.0.2.1", "documentation"),
            ("192.88.99.1", "6to4"),
            ("192.168.1.1", "private"),
            ("198.19.0.1", "measurements"),
            ("198.51.100.1", "documentation"),
            ("203.0.113.9", "documentation"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "reserved"),
            ("::", "this network"),
            ("::1", "loopback"),
            ("::127.0.0.1", "reserved"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "metadata"),
            ("::ffff:0:127.0.0.1", "reserved"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b::169.254.169.254", "metadata"),
            ("64:ff9b:1::8.8.8.8", "reserved"),
            ("100::1", "reserved"),
            ("2001::1", "tunnels"),
            ("2001:20::1", "tunnels"),
            ("2001:db8::1", "documentation"),
            ("2002:7f00:1::", "6to4"),
            ("3fff::1", "documentation"),
            ("4000::1", "reserved"),
            ("fc00::1", "private"),
            ("fd00:ec2::254", "metadata"),
            ("fd00:ec2::255", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::1", "multicast"),
        ] {
            let broken = rule_of(address).unwrap_or("nothing");
            assert!(broken.contains(rule), "{address} is {broken}");
        }
    }

    #[test]
    fn what_the_configuration_allows_is_exact() {
        let texts = ["10.1.0.0/16", "127.0.0.1", "::1", "Localhost"].map(str::to_owned);
        let allowed = AllowedTargets::parse(&texts).unwrap();
        let passes = |address: &str| check_address(address.parse().unwrap(), &allowed).is_ok();
        assert!(passes("10.1.2.3") && passes("127.0.0.1") && passes("::1") && passes("1.1.1.1"));
        assert!(!passes("10.2.0.1") && !passes("127.0.0.2") && !passes("::ffff:10.2.0.1"));
        assert!(allowed.has_host("localhost") && allowed.has_host("LOCALHOST."));
        assert!(!allowed.has_host("localhost.evil.example"));
        for bad in ["", "10.0.0.0/33", "http://x", "a b", "::1/129"] {
            assert!(AllowedTargets::parse(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn metadata_of_clouds_is_opened_one_by_one_alone() {
        let read = |texts: &[&str]| {
            AllowedTargets::parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
                .unwrap()
        };
        let networks = ["169.254.0.0/16", "100.64.0.0/10", "fc00::/7", "0.0.0.0/0", "::/0"];
        let allowed = read(&networks);
        let addresses = METADATA.map(|address| address.to_string());
        for address in addresses.iter().map(String::as_str).chain(["::ffff:169.254.169.254"]) {
            let refused = check_address(address.parse().unwrap(), &allowed).unwrap_err();
            assert!(refused.contains("metadata"), "{refused}");
        }
        assert!(check_address("169.254.0.1".parse().unwrap(), &allowed).is_ok());
        let named = read(&["169.254.0.0/16", "169.254.169.254", "fd00:ec2::254/128"]);
        let passes = |address: &str| check_address(address.parse().unwrap(), &named).is_ok();
        assert!(passes("169.254.169.254") && passes("fd00:ec2::254"));
        assert!(!passes("169.254.170.2") && !passes("fd00:ec2::23"));
    }
}
