package k8slayout

import (
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

func TestPlatformOf(t *testing.T) {
	for name, want := range map[string]string{
		"bin/linux/amd64/kubectl":                      "linux/amd64",
		"bin/linux/amd64/kubectl.sha256":               "linux/amd64",
		"bin/windows/386/kubectl.exe.sig":              "windows/386",
		"bin/linux/s390x/kube-proxy.docker_tag":        "linux/s390x",
		"kubernetes-server-linux-ppc64le.tar.gz":       "linux/ppc64le",
		"kubernetes-client-darwin-arm64.tar.gz.sha512": "darwin/arm64",
		"kubernetes.tar.gz":                            "",
		"kubernetes-src.tar.gz":                        "",
		"SHA256SUMS":                                   "",
		"kubernetes-release.spdx":                      "",
		"bin/linux/kubectl":                            "",
	} {
		if got := PlatformOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestPartOfASet(t *testing.T) {
	sum := digest.SetOf([]byte("x"))
	w := Witness{
		name:   "a witness",
		claims: map[string]digest.Set{"bin/linux/amd64/kubectl": sum, "bin/linux/arm64/kubectl": sum, "kubernetes.tar.gz": sum},
		images: map[Image]Built{{Name: "pause", Platform: "linux/amd64"}: {}, {Name: "pause", Platform: "linux/s390x"}: {}},
	}
	set, err := Of(Layout(), w)
	if err != nil {
		t.Fatal(err)
	}
	part, all := set.For("linux/amd64"), len(set.Names())
	if names := part.Names(); len(names) != all-1 || slices.Contains(names, "bin/linux/arm64/kubectl") || len(part.Images()) != 1 {
		t.Errorf("names %q, images %v", names, part.Images())
	}
	if len(set.Names()) != all || len(set.Images()) != 2 {
		t.Error("the whole was changed with its part")
	}
	if set.Claim("kubernetes.tar.gz") != sum || !set.Claim("SHA256SUMS").IsZero() {
		t.Error("another claim")
	}
}
