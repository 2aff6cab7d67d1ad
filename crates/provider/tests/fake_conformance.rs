//! The fake keeps every promise of a provider, and a provider that breaks one is caught.

#[path = "fake_conformance/broken.rs"]
mod broken;
#[path = "fake_conformance/caught.rs"]
mod caught;
#[path = "fake_conformance/ground.rs"]
mod ground;

use ground::FakeGround;

pinfold_provider::promises!(tests: FakeGround::bare());
