package k8slayout_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// buildScripts are scripts of a small project, in the constructs that the build
// scripts of Kubernetes use.
func buildScripts() map[string]string {
	return map[string]string{
		"hack/lib/golang.sh": `#!/usr/bin/env bash
# The platforms.
readonly KUBE_SUPPORTED_SERVER_PLATFORMS=(
  linux/amd64
  linux/arm64
)
readonly KUBE_SUPPORTED_NODE_PLATFORMS=(
  linux/amd64
  windows/amd64
)
readonly KUBE_SUPPORTED_CLIENT_PLATFORMS=(linux/amd64 darwin/arm64)
readonly KUBE_SUPPORTED_TEST_PLATFORMS=(linux/amd64)

kube::golang::server_targets() {
  local targets=(
    # a comment
    cmd/lamp-server
    staging/src/lamp-agent
  )
  echo "${targets[@]}"
}
IFS=" " read -ra KUBE_SERVER_TARGETS <<< "$(kube::golang::server_targets)"
readonly KUBE_SERVER_TARGETS
readonly KUBE_SERVER_BINARIES=("${KUBE_SERVER_TARGETS[@]##*/}")
kube::golang::node_targets() {
  local targets=(
    staging/src/lamp-agent
  )
  echo "${targets[@]}"
}
IFS=" " read -ra KUBE_NODE_TARGETS <<< "$(kube::golang::node_targets)"
readonly KUBE_NODE_TARGETS
readonly KUBE_CLIENT_TARGETS=(
  cmd/lampctl
)
kube::golang::setup_platforms() {
  if [[ -n "${KUBE_BUILD_PLATFORMS:-}" ]]; then
    KUBE_SERVER_PLATFORMS=("linux/${host_arch}")
  else
    KUBE_SERVER_PLATFORMS=("${KUBE_SUPPORTED_SERVER_PLATFORMS[@]}")
    KUBE_NODE_PLATFORMS=("${KUBE_SUPPORTED_NODE_PLATFORMS[@]}")
    KUBE_CLIENT_PLATFORMS=("${KUBE_SUPPORTED_CLIENT_PLATFORMS[@]}")
    KUBE_TEST_PLATFORMS=("${KUBE_SUPPORTED_TEST_PLATFORMS[@]}")
  fi
}
`,
		"build/common.sh": `kube::build::get_docker_wrapped_binaries() {
  ### KUBE_SERVER_TARGETS has more
  local targets=(
    "lamp-server,${LAMP_BASE_IMAGE}"
    "lampctl,${LAMP_BASE_IMAGE}"
  )

  echo "${targets[@]}"
}
`,
		"build/lib/release.sh": `readonly RELEASE_TARS="${LOCAL_OUTPUT_ROOT}/release-tars"
function kube::release::package() {
  rm -rf "${RELEASE_TARS}"
  local src="${RELEASE_TARS}/kubernetes-src.tar.gz" all="${RELEASE_TARS}/kubernetes.tar.gz"
  local long_platforms=("${LOCAL_OUTPUT_BINPATH}"/*/*)
  for platform_long in "${long_platforms[@]}"; do
    local name="${RELEASE_TARS}/kubernetes-client-${platform_tag}.tar.gz"
  done
  for platform in "${KUBE_NODE_PLATFORMS[@]}"; do
    cp "${RELEASE_TARS}/kubernetes-src.tar.gz" "${stage}/"
    local name="${RELEASE_TARS}/kubernetes-node-${platform_tag}.tar.gz"
  done
  for platform in "${KUBE_SERVER_PLATFORMS[@]}"; do
    local name="${RELEASE_TARS}/kubernetes-server-${platform_tag}.tar.gz"
  done
  for platform in "${KUBE_TEST_PLATFORMS[@]}"; do
    local name="${RELEASE_TARS}/kubernetes-test-${platform_tag}.tar.gz"
  done
  local name="${RELEASE_TARS}/kubernetes-manifests.tar.gz" test="${RELEASE_TARS}/kubernetes-test-portable.tar.gz"
  conformance_tag="${registry}/conformance-${arch}:${version}"
  docker save -o "${binary_file_path}.tar" "${tag}"
  echo "${tag}" > "${binary_file_path}.docker_tag"
}
`,
	}
}

func derive(scripts map[string]string) ([]byte, error) {
	v, err := version.Parse("v1.36.0")
	if err != nil {
		return nil, err
	}
	return k8slayout.Derive(v, strings.Repeat("a", 40), func(path string) ([]byte, error) {
		text, there := scripts[path]
		if !there {
			return nil, fmt.Errorf("no %s", path)
		}
		return []byte(text), nil
	})
}

// TestDerive: the list has what the scripts build, and no more.
func TestDerive(t *testing.T) {
	raw, err := derive(buildScripts())
	if err != nil {
		t.Fatal(err)
	}
	list, err := k8slayout.ParseList(raw)
	if err != nil {
		t.Fatal(err)
	}
	set, err := k8slayout.Of(list.Witness())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"bin/darwin/arm64/lampctl", "bin/linux/amd64/lamp-agent", "bin/linux/amd64/lamp-server", "bin/linux/amd64/lamp-server.docker_tag",
		"bin/linux/amd64/lamp-server.tar", "bin/linux/amd64/lampctl", "bin/linux/amd64/lampctl.docker_tag", "bin/linux/amd64/lampctl.tar",
		"bin/linux/arm64/lamp-agent", "bin/linux/arm64/lamp-server", "bin/linux/arm64/lamp-server.docker_tag", "bin/linux/arm64/lamp-server.tar",
		"bin/linux/arm64/lampctl.docker_tag", "bin/linux/arm64/lampctl.tar", "bin/windows/amd64/lamp-agent.exe",
		"kubernetes-client-darwin-arm64.tar.gz", "kubernetes-client-linux-amd64.tar.gz", "kubernetes-manifests.tar.gz", "kubernetes-node-linux-amd64.tar.gz",
		"kubernetes-node-windows-amd64.tar.gz", "kubernetes-release.spdx", "kubernetes-server-linux-amd64.tar.gz", "kubernetes-server-linux-arm64.tar.gz",
		"kubernetes-source.spdx", "kubernetes-src.tar.gz", "kubernetes-test-linux-amd64.tar.gz", "kubernetes-test-portable.tar.gz", "kubernetes.tar.gz",
	}
	if got := set.Names(); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	var images []string
	for _, i := range set.Images() {
		images = append(images, i.Alone())
	}
	if want := []string{"conformance-amd64", "conformance-arm64", "lamp-server-amd64", "lamp-server-arm64", "lampctl-amd64", "lampctl-arm64"}; !slices.Equal(images, want) {
		t.Errorf("images %q", images)
	}
	if list.Minor() != "1.36" || list.Sources()[0].Of != "v1.36.0" || list.Sources()[0].Commit != strings.Repeat("a", 40) {
		t.Errorf("of %s, from %+v", list.Minor(), list.Sources())
	}
}

// TestDeriveRefuses: each row changes one line to a form that is not understood,
// and the refusal says where.
func TestDeriveRefuses(t *testing.T) {
	const targets, wrapped, packaging = "hack/lib/golang.sh", "build/common.sh", "build/lib/release.sh"
	for _, r := range []struct{ file, old, text, at string }{
		{targets, "# The platforms.", "KUBE_SERVER_TARGETS+=(cmd/more)", targets + ":2"},
		{targets, "# The platforms.", "unset KUBE_CLIENT_TARGETS", targets + ":2"},
		{targets, "# The platforms.", `declare -n x=KUBE_CLIENT_TARGETS`, targets + ":2"},
		{targets, "# The platforms.", `echo " # "; KUBE_CLIENT_TARGETS=(x)`, targets + ":2"},
		{targets, "  linux/arm64\n", "  linux/arm64 # more\n", targets + ":5"},
		{targets, "# The platforms.", `readonly KUBE_SUPPORTED_EDGE_PLATFORMS=(linux/arm)`, targets + ":2"},
		{targets, "# The platforms.", "if true; then\nreadonly KUBE_SUPPORTED_CLIENT_PLATFORMS=(linux/amd64)\nfi", targets + ":3"},
		{targets, "  linux/arm64\n", "  \"${MORE[@]}\"\n", targets + ":5"},
		{targets, "  linux/arm64\n", "  linux/$(arch)\n", targets + ":3"},
		{targets, "    # a comment", `    $(find cmd)`, targets + ":22"},
		{targets, "  echo \"${targets[@]}\"\n}\nIFS", "  targets+=(x)\n  echo \"${targets[@]}\"\n}\nIFS", targets + ":23"},
		{targets, "<<< \"$(kube::golang::node_targets)\"", "<<< \"$(kube::golang::edge_targets)\"", targets + ":31"},
		{targets, "readonly KUBE_CLIENT_TARGETS=(\n  cmd/lampctl\n)", "kubectl=cmd/lampctl", targets + ":1"},
		{targets, "readonly KUBE_SERVER_TARGETS", "KUBE_SERVER_TARGETS=(cmd/other)", targets + ":23"},
		{targets, `    KUBE_NODE_PLATFORMS=("${KUBE_SUPPORTED_NODE_PLATFORMS[@]}")`, `    KUBE_NODE_PLATFORMS=("linux/amd64")`, targets + ":46"},
		{targets, "staging/src/lamp-agent\n  )\n  echo \"${targets[@]}\"\n}\nIFS=\" \" read -ra KUBE_NODE", "cmd/stranger\n  )\n  echo \"${targets[@]}\"\n}\nIFS=\" \" read -ra KUBE_NODE", targets + ":1"},
		{wrapped, `"lampctl,${LAMP_BASE_IMAGE}"`, `"$(cat images)"`, wrapped + ":1"},
		{wrapped, `  echo "${targets[@]}"`, `  echo "${targets[0]}"`, wrapped + ":1"},
		{packaging, "kubernetes-node-${platform_tag}", "kubernetes-edge-${platform_tag}", packaging + ":11"},
		{packaging, "for platform in \"${KUBE_NODE_PLATFORMS[@]}\"", "for platform in \"${KUBE_EDGE_PLATFORMS[@]}\"", packaging + ":24"},
		{packaging, `rm -rf "${RELEASE_TARS}"`, `cp extra.zip ${RELEASE_TARS}/`, packaging + ":3"},
		{packaging, `rm -rf "${RELEASE_TARS}"`, `cp extra.zip "$RELEASE_TARS"/`, packaging + ":3"},
		{packaging, `rm -rf "${RELEASE_TARS}"`, `cp extra.zip "${RELEASE_TARS}/extra.zip"`, packaging + ":3"},
		{packaging, ` > "${binary_file_path}.docker_tag"`, "", packaging + ":24"},
	} {
		t.Run(r.file+": "+strings.TrimSpace(r.text), func(t *testing.T) {
			scripts := maps.Clone(buildScripts())
			if strings.Count(scripts[r.file], r.old) < 1 {
				t.Fatalf("the script has no %q", r.old)
			}
			scripts[r.file] = strings.Replace(scripts[r.file], r.old, r.text, 1)
			raw, err := derive(scripts)
			var refused *verdict.Error
			if !errors.As(err, &refused) || refused.Finding.Code != verdict.ConfigParse || refused.Finding.Subject != r.at || raw != nil {
				t.Errorf("got %v, want CONFIG at %s", err, r.at)
			}
		})
	}
	for _, file := range []string{targets, wrapped, packaging} {
		scripts := buildScripts()
		delete(scripts, file)
		if _, err := derive(scripts); err == nil {
			t.Errorf("without %s: a list was made", file)
		}
	}
}
