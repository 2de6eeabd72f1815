//! What people call containers, from the files in which Docker, Podman, containerd and CRI-O keep their state.
//!
//! A control group holds the container's identity only. All of these files belong to root.

use schedlab_model::container_id;
use schedlab_sys::regular_file;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Looks names of containers up.
#[derive(Debug)]
pub(crate) struct Containers {
    root: PathBuf,
    /// Podman has one list of all its containers: it is read when the first is asked for.
    podman: Option<Value>,
}

impl Containers {
    /// Those of the machine whose files are below `root`.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), podman: None }
    }

    /// What people call the container whose group, or a group in it, has this path: `web`, `shop/cart-7d9f/server` in a pod.
    pub(crate) fn name_of(&mut self, path: &str) -> Option<String> {
        let mut parts = path.split('/');
        let id = parts.find_map(container_id)?;
        let below: String = parts.map(|part| format!("/{part}")).collect();
        let name = self.docker(id).or_else(|| self.cri(id)).or_else(|| self.podman(id))?;
        Some(name + &below)
    }

    fn json(&self, file: &str) -> Option<Value> {
        let bytes = regular_file::read(&self.root.join(file), regular_file::TEXT_MAX).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn docker(&self, id: &str) -> Option<String> {
        let config = self.json(&format!("var/lib/docker/containers/{id}/config.v2.json"))?;
        let labels = &config["Config"]["Labels"];
        // Kubernetes through Docker names the pod in labels.
        let name = config["Name"].as_str()?.trim_start_matches('/').to_owned();
        Some(in_pod(labels, "io.kubernetes.pod.", "io.kubernetes.container.name").unwrap_or(name))
    }

    /// Annotations of the runtime's own description: of CRI-O, and of containerd, which has a folder for each namespace.
    fn cri(&self, id: &str) -> Option<String> {
        const TASKS: &str = "run/containerd/io.containerd.runtime.v2.task";
        let spaces = std::fs::read_dir(self.root.join(TASKS)).into_iter().flatten().flatten();
        let spaces = spaces.filter_map(|space| space.file_name().into_string().ok());
        let mut files: Vec<String> =
            spaces.map(|space| format!("{TASKS}/{space}/{id}/config.json")).collect();
        files.sort();
        for storage in ["var/lib/containers/storage", "run/containers/storage"] {
            files.push(format!("{storage}/overlay-containers/{id}/userdata/config.json"));
        }
        files.into_iter().find_map(|file| {
            let config = self.json(&file)?;
            let notes = &config["annotations"];
            in_pod(notes, "io.kubernetes.cri.sandbox-", "io.kubernetes.cri.container-name")
                .or_else(|| in_pod(notes, "io.kubernetes.pod.", "io.kubernetes.container.name"))
                .or_else(|| notes["nerdctl/name"].as_str().map(str::to_owned))
        })
    }

    fn podman(&mut self, id: &str) -> Option<String> {
        const LIST: &str = "var/lib/containers/storage/overlay-containers/containers.json";
        if self.podman.is_none() {
            self.podman = Some(self.json(LIST).unwrap_or_default());
        }
        let all = self.podman.as_ref()?.as_array()?;
        let container = all.iter().find(|container| container["id"] == id)?;
        container["names"][0].as_str().map(str::to_owned)
    }
}

/// Namespace, pod and container, by notes whose names begin with `pod`: `shop/cart-7d9f/server`.
fn in_pod(notes: &Value, pod: &str, container: &str) -> Option<String> {
    let note = |name: String| notes[name].as_str();
    let name = note(format!("{pod}name"))?;
    let space = note(format!("{pod}namespace")).map(|space| format!("{space}/"));
    // The pod's own, which holds its namespaces, has no name.
    let container = notes[container].as_str().map(|name| format!("/{name}"));
    Some(format!("{}{name}{}", space.unwrap_or_default(), container.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_called_as_their_engines_call_them() {
        let root = tempfile::tempdir().unwrap();
        let put = |file: String, text: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let id = |digit: char| digit.to_string().repeat(64);
        let docker = |digit| format!("var/lib/docker/containers/{}/config.v2.json", id(digit));
        put(docker('1'), r#"{"Name": "/web", "Config": {"Labels": {"a": "b"}}}"#);
        let tasks = "run/containerd/io.containerd.runtime.v2.task";
        put(
            format!("{tasks}/k8s.io/{}/config.json", id('2')),
            r#"{"annotations": {"io.kubernetes.cri.sandbox-name": "cart-7d9f",
                "io.kubernetes.cri.sandbox-namespace": "shop",
                "io.kubernetes.cri.container-name": "server"}}"#,
        );
        put(
            format!("{tasks}/default/{}/config.json", id('3')),
            r#"{"annotations": {"nerdctl/name": "proxy"}}"#,
        );
        let storage = "var/lib/containers/storage/overlay-containers";
        put(
            format!("{storage}/{}/userdata/config.json", id('4')),
            r#"{"annotations": {"io.kubernetes.pod.name": "db-0",
                "io.kubernetes.pod.namespace": "shop", "io.kubernetes.container.name": "db"}}"#,
        );
        let list = format!(r#"[{{"id": "{}", "names": ["batch"]}}]"#, id('5'));
        put(format!("{storage}/containers.json"), &list);
        put(docker('6'), "no JSON");
        let mut containers = Containers::at(root.path());
        let mut name = |path: String| containers.name_of(&path);
        let named = |text: &str| Some(text.to_owned());
        assert_eq!(name(format!("/system.slice/docker-{}.scope", id('1'))), named("web"));
        assert_eq!(name(format!("/docker/{}/init", id('1'))), named("web/init"));
        let pod = "/kubepods.slice/kubepods-pod1a2b3c4d_5e6f.slice";
        let path = format!("{pod}/cri-containerd-{}.scope", id('2'));
        assert_eq!(name(path), named("shop/cart-7d9f/server"));
        assert_eq!(name(format!("/default/{}", id('3'))), named("proxy"));
        assert_eq!(name(format!("{pod}/crio-{}.scope", id('4'))), named("shop/db-0/db"));
        let libpod = format!("/machine.slice/libpod-{}.scope", id('5'));
        assert_eq!(name(libpod), named("batch"));
        assert_eq!(name(format!("/docker/{}", id('6'))), None, "its file cannot be read");
        assert_eq!(name(format!("/docker/{}", id('7'))), None, "nobody has a name for it");
        assert_eq!(name("/system.slice/sshd.service".to_owned()), None);
    }
}
