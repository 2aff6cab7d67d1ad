//! Runs the conformance suite against the fake provider, and checks that the suite catches broken providers.

#[path = "fake_conformance/broken.rs"]
mod broken;
#[path = "fake_conformance/broken_files.rs"]
mod broken_files;
#[path = "fake_conformance/broken_output.rs"]
mod broken_output;
#[path = "fake_conformance/caught.rs"]
mod caught;
#[path = "fake_conformance/fixture.rs"]
mod fixture;

use fixture::FakeFixture;

pinfold_provider::conformance_tests!(tests: FakeFixture::bare());
