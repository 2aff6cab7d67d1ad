//! Images on this host: importing, listing and removing them. An image is a list of layers, which are directories
//! that images share, and the settings that it came with.
//!
//! Archives are hostile. None is read in this process: its bytes go to a confined child ([`unpack`]) whose root is
//! the directory that is filled, and what comes back is a short report.

mod bundle;
mod digest;
mod feed;
mod image;
mod images;
mod import;
mod limits;
mod name;
mod pack;
mod remove;
mod shelf;
pub mod unpack;

pub use digest::{Digest, DigestError, ImageId, LayerId};
pub use image::{Image, Settings};
pub use images::{FindError, Images, OpenError, Unpacker};
pub use import::ImportError;
pub use limits::Limits;
pub use name::{HOST, ImageName, NameError};
pub use remove::{RemoveError, Removed};
pub use shelf::ShelfError;
pub use unpack::{LAYER_IDS_COUNT, LAYER_IDS_FIRST, Refusal, UNPACK};
