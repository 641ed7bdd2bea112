package pathend_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/pathend"
)

func TestCommon(t *testing.T) {
	const name = "bin/linux/amd64/lantern"
	for file, want := range map[string]int{
		"": 0, "/": 0, "lamp": 0, "lantern/": 1, "lantern": 1, "./lantern": 1, "bin/linux/arm64/lantern": 1, "amd64/x/../lantern": 2, "amd64//lantern": 2,
		"darwin/amd64/lantern": 2, "gs://b/stage/x/bin/linux/amd64/lantern": 4, "dl/linux/amd64/lantern": 3, name: 4, "/" + name: 4, "dl/" + name: 4, name + "/lantern": 1, "bin/linux/amd64": 0,
	} {
		if got := pathend.Common(file, name); got != want {
			t.Errorf("%q: %d, want %d", file, got, want)
		}
	}
}
