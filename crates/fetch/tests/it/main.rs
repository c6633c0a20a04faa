//! Stores and archives, downloads and uploads, against servers on loopback.

mod archives;
mod common;
mod conformance;
mod dav;
mod foreign_words;
mod ftp;
mod get;
mod get_control;
mod get_damage;
mod get_existing;
mod get_faults;
mod get_outages;
mod gs;
mod http;
mod lists;
mod odd_servers;
mod pipe;
mod put;
mod put_mirror;
mod redirects;
mod s3;
mod sftp;
mod sidecars;
