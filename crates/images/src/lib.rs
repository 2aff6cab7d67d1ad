//! Container images on this host: import, list, find and remove.
//!
//! An image is a list of layers plus the settings it came with. A layer is a directory that images share. Archives are
//! hostile: the importing process never parses one. It pipes the bytes to a jailed child process ([`unpack`]) whose
//! root directory is the layer being filled, and reads back a short report.
//!
//! ```text
//!  importer (this process)                         unpacker (child process in a jail)
//!  -----------------------                         ----------------------------------
//!  lock store, make staging directory
//!  start unpacker in staging/<layer>/root  ----->  new namespaces, root = that directory,
//!  write archive bytes, hash them          ----->  seccomp, no capabilities beyond its files
//!                                                  decompress, parse tar, create files
//!  read report (before a deadline)         <-----  UnpackReport: unpacked | refused
//!  check digests
//!  lock store, rename layers into place,
//!  rename names/<name>.json into place (the image is visible from here on)
//! ```
//!
//! Main types: [`Images`] (the entry point), [`Image`], [`ImageName`], [`Digest`], [`Limits`], [`ImportError`],
//! [`Refusal`] (why the unpacker refused an archive).

mod bundle;
mod digest;
mod image;
mod images;
mod import;
mod layer_store;
mod limits;
mod name;
mod remove;
mod tar_writer;
pub mod unpack;
mod unpacker_process;

pub use digest::{Digest, DigestError, ImageId, LayerId};
pub use image::{Image, Settings};
pub use images::{FindError, Images, OpenError, Unpacker};
pub use import::ImportError;
pub use layer_store::LayerStoreError;
pub use limits::Limits;
pub use name::{HOST, ImageName, NameError};
pub use remove::{RemoveError, Removed};
pub use unpack::{LAYER_IDS_COUNT, LAYER_IDS_FIRST, Refusal, UNPACK};
