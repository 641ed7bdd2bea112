package k8slayout

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Image is an image for one platform. It is published twice: as part of the
// index of its name, and on its own under a name that ends with its
// architecture.
type Image struct {
	Name     string // name of the index
	Platform string
}

// Alone is the name under which it is published on its own.
func (i Image) Alone() string {
	return i.Name + "-" + i.Platform[strings.LastIndexByte(i.Platform, '/')+1:]
}

// Archive is the name of the file that contains the image, where it is
// published.
func (i Image) Archive() string { return "bin/" + i.Platform + "/" + i.Name + ".tar" }

// imageIn derives the image from the file name of its archive.
func imageIn(file string) Image {
	rest, below := strings.CutPrefix(file, "bin/")
	at := strings.LastIndexByte(rest, '/')
	name, archive := strings.CutSuffix(rest[at+1:], ".tar")
	if !below || at < 0 || !archive {
		return Image{}
	}
	return Image{Name: name, Platform: rest[:at]}
}

// architectures lists all architectures for which images are or were made.
var architectures = []string{"386", "amd64", "arm", "arm64", "ppc64le", "riscv64", "s390x"}

// parseImage reads the name of an image that is published on its own. The name
// of an index names no architecture.
func parseImage(alone string) (Image, bool) {
	i := strings.LastIndexByte(alone, '-')
	if i <= 0 || !slices.Contains(architectures, alone[i+1:]) || badName(alone) != "" {
		return Image{}, false
	}
	return Image{Name: alone[:i], Platform: "linux/" + alone[i+1:]}, true
}

// Images lists the images that at least one witness names, sorted.
func (s Set) Images() []Image {
	var all []Image
	for _, w := range s.witnesses {
		all = slices.AppendSeq(all, maps.Keys(w.images))
	}
	order.Sort(all, func(a, b Image) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Platform, b.Platform))
	})
	return slices.Compact(all)
}

// CompareImages lists the images about which witnesses disagree. A witness that
// names no images at all is not compared.
func (s Set) CompareImages() (findings []verdict.Finding) {
	for _, i := range s.Images() {
		var with, without []string
		for _, w := range s.witnesses {
			_, names := w.images[i]
			switch {
			case len(w.images) == 0:
			case names:
				with = append(with, w.name)
			default:
				without = append(without, w.name)
			}
		}
		if len(without) > 0 {
			findings = append(findings, verdict.Find(verdict.Conflict, "oci/"+i.Alone(), "listed in %s, but not in %s", join(with), join(without)))
		}
	}
	return findings
}
