//! What an execution sees of itself and of the keeper, and what can be seen of the keeper only from the host.

use std::collections::BTreeMap;
use std::fs;

use pinfold_lifecycle::Command;

use crate::fixture::Fixture;

/// Text sections by name.
pub(crate) struct Observed {
    pub(crate) inside: BTreeMap<String, String>,
    /// The keeper, as seen from the host.
    pub(crate) keeper: BTreeMap<String, String>,
}

/// The variable that the execution is given beside the standard ones.
pub(crate) const GIVEN: [(&str, &str); 1] = [("GIVEN", "1")];

const SCRIPT: &str = r#"
section() { printf '\n@@@ %s\n' "$1"; }
section descriptors; for each in $(seq 0 63); do
    if [ -L /proc/$$/fd/$each ]; then printf '%s ' $each; readlink /proc/$$/fd/$each; fi; done
section status; cat /proc/self/status
section limits; cat /proc/self/limits
section mounts; cat /proc/self/mountinfo
section environment; tr '\0' '\n' < /proc/$$/environ
section uid_map; cat /proc/self/uid_map
section gid_map; cat /proc/self/gid_map
section setgroups; cat /proc/self/setgroups
section namespaces; for each in user pid mnt net ipc uts cgroup; do readlink /proc/self/ns/$each; done
section cwd; pwd
section umask; umask
section processes; ls /proc | grep -E '^[0-9]+$' | sort -n | head -1; ls /proc | grep -cE '^[0-9]+$'
section devices; ls -A /dev
section interfaces; ls /sys/class/net
section routes; cat /proc/net/route
section hostname; hostname
section oom; cat /proc/self/oom_score_adj
section session; cut -d' ' -f5,6 /proc/$$/stat; echo $$
section keeper; for each in environ maps mem auxv stack; do head -c1 /proc/1/$each >/dev/null 2>&1 && echo $each; done
    ls /proc/1/fd >/dev/null 2>&1 && echo fd; readlink /proc/1/exe; readlink /proc/1/cwd; readlink /proc/1/root
section cmdline; tr '\0' ' ' < /proc/1/cmdline
section groups; cat /proc/self/cgroup
section openness; stat -c %a:%u:%g / /tmp /workspace /root
section root; ls -A /
"#;

pub(crate) async fn observe(fixture: &Fixture) -> Result<Observed, String> {
    let argv = ["sh", "-c", SCRIPT].map(str::to_owned).to_vec();
    let env = GIVEN.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let command = Command { argv, env, workdir: Some("/workspace".into()), ..Command::default() };
    let execution = fixture.begin(&command, Some(8_000)).await.map_err(|error| error.to_string())?;
    let ended = fixture.end_of(execution).await.ok_or("it did not end")?;
    let said = fixture.output_of(execution);
    if ended.exit_code.is_none() || !said.contains("@@@ root") {
        return Err(format!("it could not look around: {ended:?} {said}"));
    }
    // The keeper notices only on its next wakeup that the last client has left.
    let mut keeper = of_keeper(fixture)?;
    for _ in 0..50 {
        if keeper.get("descriptors").is_some_and(|all| all.matches("socket:").count() == 1) {
            break;
        }
        crate::scenarios::a_moment(20).await;
        keeper = of_keeper(fixture)?;
    }
    Ok(Observed { inside: sections(&said), keeper })
}

fn sections(text: &str) -> BTreeMap<String, String> {
    let parts = text.split("@@@ ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.map(|(name, text)| (name.to_owned(), text.trim().to_owned())).collect()
}

fn of_keeper(fixture: &Fixture) -> Result<BTreeMap<String, String>, String> {
    let (pid, _) = fixture.keeper()?;
    let mut found = BTreeMap::new();
    for name in ["status", "limits", "environ", "oom_score_adj"] {
        let text = fs::read_to_string(format!("/proc/{pid}/{name}")).map_err(|error| error.to_string())?;
        found.insert(name.to_owned(), text);
    }
    let mut descriptors = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).map_err(|error| error.to_string())?.flatten() {
        let kind = fs::read_link(entry.path()).map(|kind| kind.display().to_string()).unwrap_or_default();
        descriptors.push(kind);
    }
    descriptors.sort();
    found.insert("descriptors".to_owned(), descriptors.join("\n"));
    Ok(found)
}

impl Observed {
    pub(crate) fn of(&self, section: &str) -> &str {
        self.inside.get(section).map_or("", String::as_str)
    }

    pub(crate) fn of_keeper(&self, section: &str) -> &str {
        self.keeper.get(section).map_or("", String::as_str)
    }
}
