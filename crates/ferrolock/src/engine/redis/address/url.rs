//! Reads the URL of a server.

use std::path::PathBuf;

use super::config::{NO_TLS, ServerAddress};
use crate::engine::{no_address, percent_decoded};

const PORT: u16 = 6379;

/// What a URL says.
pub(in super::super) struct Parts {
    pub(in super::super) place: ServerAddress,
    pub(in super::super) username: Option<String>,
    pub(in super::super) password: Option<String>,
    pub(in super::super) db: i64,
}

/// No error repeats a part of the URL: a password that is not encoded can stand anywhere in it.
pub(in super::super) fn parse(url: &str) -> Result<Parts, String> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(no_address());
    };
    match scheme.to_ascii_lowercase().as_str() {
        "redis" => parse_network(rest, |host, port| ServerAddress::Tcp { host, port }),
        "rediss" if cfg!(feature = "tls") => {
            parse_network(rest, |host, port| ServerAddress::Tls { host, port })
        }
        "rediss" => err(NO_TLS),
        "unix" | "redis+unix" => parse_unix(rest),
        _ => Err(no_address()),
    }
}

fn parse_network(rest: &str, place: fn(String, u16) -> ServerAddress) -> Result<Parts, String> {
    let Some(rest) = rest.strip_prefix("//") else {
        return err("a server's address has two slashes after the colon: redis://host:port/db");
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    if tail.contains('@') {
        return err("the characters / ? # @ : in a user name or password must be percent-encoded");
    }
    let (login, server) = match authority.rsplit_once('@') {
        Some((login, server)) => (login, server),
        None => ("", authority),
    };
    let (host, port) = parse_server(server)?;
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let mut parts = Parts {
        place: place(host, port),
        username: None,
        password: None,
        db: parse_db(path.strip_prefix('/').unwrap_or(path))?,
    };
    if let Some((user, password)) = login.split_once(':') {
        parts.username = filled(decode(user)?);
        parts.password = filled(decode(password)?);
    } else {
        parts.username = filled(decode(login)?);
    }
    parse_query(query, &mut parts)?;
    Ok(parts)
}

fn parse_server(server: &str) -> Result<(String, u16), String> {
    let (host, port) = match server.strip_prefix('[') {
        Some(rest) => {
            let Some((host, port)) = rest.split_once(']') else {
                return err("an ipv6 host stands in brackets: redis://[::1]:6379");
            };
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return err("what stands in brackets is not an ipv6 address");
            }
            (host, port)
        }
        None => server.split_at(server.find(':').unwrap_or(server.len())),
    };
    if host.is_empty() {
        return err("the address has no host");
    }
    if host
        .chars()
        .any(|c| c.is_whitespace() || c.is_control() || c == '%')
    {
        return err("the host has a character that no host name has");
    }
    Ok((host.to_owned(), parse_port(port)?))
}

fn parse_port(text: &str) -> Result<u16, String> {
    let digits = match text.strip_prefix(':') {
        None if text.is_empty() => return Ok(PORT),
        Some(digits) => digits,
        None => text,
    };
    match digits.parse() {
        Ok(port) if port != 0 => Ok(port),
        _ => err("the port is not a number from 1 to 65535"),
    }
}

fn parse_db(text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    match text.parse::<u32>() {
        Ok(db) => Ok(i64::from(db)),
        Err(_) => err("the database is not a number, as in redis://host:6379/0"),
    }
}

fn parse_unix(rest: &str) -> Result<Parts, String> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.strip_prefix("//").unwrap_or(path);
    if !path.starts_with('/') {
        return err("the path of a socket is absolute: unix:/run/redis.sock");
    }
    let mut parts = Parts {
        place: ServerAddress::Unix(PathBuf::from(decode(path)?)),
        username: None,
        password: None,
        db: 0,
    };
    parse_query(query, &mut parts)?;
    Ok(parts)
}

fn parse_query(query: &str, parts: &mut Parts) -> Result<(), String> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "db" => parts.db = parse_db(value)?,
            "user" => parts.username = filled(decode(value)?),
            "pass" => parts.password = filled(decode(value)?),
            // Other clients need it; this one always speaks RESP3.
            "protocol" => {}
            _ => return err("the address has an unknown option; known are db, user and pass"),
        }
    }
    Ok(())
}

fn decode(text: &str) -> Result<String, String> {
    match percent_decoded(text).map(String::from_utf8) {
        Some(Ok(text)) => Ok(text),
        Some(Err(_)) => err("the address is not utf-8 once it is decoded"),
        None => err("a % in the address is not followed by two hexadecimal digits"),
    }
}

fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn err<T>(text: &str) -> Result<T, String> {
    Err(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::config::Config;
    use super::*;

    #[test]
    fn every_part_of_a_full_address_is_read() {
        let parts = parse("redis://al%40ice:p%3Ass%2f@db.example:7000/3").unwrap();

        assert_eq!(
            parts.place,
            ServerAddress::Tcp {
                host: "db.example".into(),
                port: 7000
            }
        );
        assert_eq!(parts.username.as_deref(), Some("al@ice"));
        assert_eq!(parts.password.as_deref(), Some("p:ss/"));
        assert_eq!(parts.db, 3);
    }

    #[test]
    fn parts_that_are_left_out_have_defaults() {
        let parts = parse("redis://:secret@localhost").unwrap();

        assert_eq!(
            parts.place,
            ServerAddress::Tcp {
                host: "localhost".into(),
                port: 6379
            }
        );
        assert_eq!(parts.username, None);
        assert_eq!(parts.password.as_deref(), Some("secret"));
        assert_eq!(parts.db, 0);
    }

    #[test]
    fn an_address_shows_everything_but_the_credentials() {
        for (url, address) in [
            ("redis://u:secret@localhost", "redis://localhost:6379"),
            ("redis://:secret@[::1]:7/2", "redis://[::1]:7/2"),
            (
                "unix:/run/redis.sock?db=4&user=u&pass=secret",
                "unix:/run/redis.sock?db=4",
            ),
            ("unix:///run/redis.sock", "unix:/run/redis.sock"),
            ("redis+unix:///run/r%20s.sock", "unix:/run/r s.sock"),
        ] {
            let config = Config::parse(url).unwrap();

            assert_eq!(config.address(), address);
            assert!(!format!("{config:?}").contains("secret"));
        }
    }

    #[test]
    fn the_error_for_a_bad_address_is_one_line_without_the_password() {
        for url in [
            "",
            "localhost",
            "http://secret@host",
            "redis:host",
            "redis://",
            "redis://:secret@",
            "redis://u:sec/ret@host",
            "redis://:secret@host:port",
            "redis://:secret@host:0",
            "redis://:secret@host:70000",
            "redis://:secret@host/x",
            "redis://:secret@host/-1",
            "redis://:secret@host?pas=secret",
            "redis://:secret%zz@host",
            "redis://:secret%ff@host",
            "redis://:secret@[::1",
            "redis://:secret@[nonsense]",
            "redis://:secret@ho st",
            "unix:relative.sock?pass=secret",
            "unix:",
        ] {
            let text = Config::parse(url).unwrap_err();

            assert!(!text.contains("secret") && !text.contains('\n'), "{text}");
            assert!(text.starts_with(|c: char| c.is_lowercase()), "{text}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn an_address_with_tls_names_the_feature_that_is_missing() {
        assert!(
            parse("rediss://host")
                .err()
                .unwrap()
                .contains("feature `tls`")
        );
    }

    #[cfg(feature = "tls")]
    #[test]
    fn an_address_with_tls_is_accepted() {
        let config = Config::parse("rediss://host").unwrap();

        assert_eq!(config.address(), "rediss://host:6379");
    }

    #[test]
    fn a_client_of_the_redis_crate_gives_its_address_and_credentials() {
        let client = ::redis::Client::open("redis://u:secret@host:7/2").unwrap();

        let config = Config::from_client(&client).unwrap();

        assert_eq!(config.address(), "redis://host:7/2");
        assert_eq!(config.username.as_deref(), Some("u"));
        assert_eq!(config.password(), Some("secret"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_client_that_checks_no_certificates_is_refused() {
        let address = ::redis::ConnectionAddr::TcpTls {
            host: "host".into(),
            port: 1,
            insecure: true,
            tls_params: None,
        };
        let info = ::redis::IntoConnectionInfo::into_connection_info("redis://host").unwrap();
        let client = ::redis::Client::open(info.set_addr(address));

        // The crate itself refuses such an address when it was built without TLS.
        if let Ok(client) = client {
            assert!(
                Config::from_client(&client)
                    .unwrap_err()
                    .contains("certificates")
            );
        }
    }
}
