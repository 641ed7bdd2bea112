package kubernetes

import "strings"

// Scripts are build scripts, by path, in the constructs that those of Kubernetes
// use. They build nothing: the list that is read in them is of what [Make] makes.
func Scripts() map[string]string {
	const server, node = "linux/amd64 linux/arm64 linux/s390x linux/ppc64le", "linux/amd64 linux/arm64 linux/s390x linux/ppc64le windows/amd64"
	const client = node + " linux/386 linux/arm darwin/amd64 darwin/arm64 windows/386 windows/arm64"
	const test = server + " darwin/amd64 darwin/arm64 windows/amd64 windows/arm64"
	var golang strings.Builder
	array := func(name, words string) {
		golang.WriteString("readonly " + name + "=(\n  " + strings.ReplaceAll(words, " ", "\n  ") + "\n)\n")
	}
	function := func(kind, words string) {
		name := "kube::golang::" + kind + "_targets"
		golang.WriteString(name + "() {\n  local targets=(\n    " + strings.ReplaceAll(words, " ", "\n    ") + "\n  )\n  echo \"${targets[@]}\"\n}\n")
		variable := "KUBE_" + strings.ToUpper(kind) + "_TARGETS"
		golang.WriteString("IFS=\" \" read -ra " + variable + " <<< \"$(" + name + ")\"\nreadonly " + variable + "\n")
	}
	golang.WriteString("#!/usr/bin/env bash\n# The platforms and programs of a release.\n")
	array("KUBE_SUPPORTED_SERVER_PLATFORMS", server)
	array("KUBE_SUPPORTED_NODE_PLATFORMS", node)
	array("KUBE_SUPPORTED_CLIENT_PLATFORMS", client)
	array("KUBE_SUPPORTED_TEST_PLATFORMS", test)
	function("server", "cmd/kube-proxy cmd/kube-apiserver cmd/kube-controller-manager cmd/kubelet cmd/kubeadm cmd/kube-scheduler "+
		"staging/src/k8s.io/component-base/logs/kube-log-runner staging/src/k8s.io/kube-aggregator staging/src/k8s.io/apiextensions-apiserver cluster/gce/gci/mounter")
	function("node", "cmd/kube-proxy cmd/kubeadm cmd/kubelet staging/src/k8s.io/component-base/logs/kube-log-runner")
	array("KUBE_CLIENT_TARGETS", "cmd/kubectl cmd/kubectl-convert")
	golang.WriteString(`kube::golang::setup_platforms() {
  KUBE_SERVER_PLATFORMS=("${KUBE_SUPPORTED_SERVER_PLATFORMS[@]}")
  KUBE_NODE_PLATFORMS=("${KUBE_SUPPORTED_NODE_PLATFORMS[@]}")
  KUBE_CLIENT_PLATFORMS=("${KUBE_SUPPORTED_CLIENT_PLATFORMS[@]}")
  KUBE_TEST_PLATFORMS=("${KUBE_SUPPORTED_TEST_PLATFORMS[@]}")
}
`)
	return map[string]string{
		"hack/lib/golang.sh": golang.String(),
		"build/common.sh": `kube::build::get_docker_wrapped_binaries() {
  local targets=(
    "kube-apiserver,${KUBE_APISERVER_BASE_IMAGE}"
    "kube-controller-manager,${KUBE_CONTROLLER_MANAGER_BASE_IMAGE}"
    "kube-scheduler,${KUBE_SCHEDULER_BASE_IMAGE}"
    "kube-proxy,${KUBE_PROXY_BASE_IMAGE}"
    "kubectl,${KUBECTL_BASE_IMAGE}"
  )

  echo "${targets[@]}"
}
`,
		"build/lib/release.sh": `readonly RELEASE_TARS="${LOCAL_OUTPUT_ROOT}/release-tars"
kube::release::package_tarballs() {
  rm -rf "${RELEASE_TARS}"
  local src="${RELEASE_TARS}/kubernetes-src.tar.gz" all="${RELEASE_TARS}/kubernetes.tar.gz" manifests="${RELEASE_TARS}/kubernetes-manifests.tar.gz"
  local long_platforms=("${LOCAL_OUTPUT_BINPATH}"/*/*)
  for platform_long in "${long_platforms[@]}"; do
    local name="${RELEASE_TARS}/kubernetes-client-${platform_tag}.tar.gz"
  done
  for platform in "${KUBE_NODE_PLATFORMS[@]}"; do
    local name="${RELEASE_TARS}/kubernetes-node-${platform_tag}.tar.gz"
  done
  for platform in "${KUBE_SERVER_PLATFORMS[@]}"; do
    local name="${RELEASE_TARS}/kubernetes-server-${platform_tag}.tar.gz"
  done
  for platform in "${KUBE_TEST_PLATFORMS[@]}"; do
    local name="${RELEASE_TARS}/kubernetes-test-${platform_tag}.tar.gz"
  done
  local portable="${RELEASE_TARS}/kubernetes-test-portable.tar.gz"
  conformance_tag="${registry}/conformance-${arch}:${version}"
  docker save -o "${binary_file_path}.tar" "${tag}"
  echo "${tag}" > "${binary_file_path}.docker_tag"
}
`,
	}
}
