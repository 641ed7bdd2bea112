package promote

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Tree is the shape of a directory of manifests, as Kubernetes' promoter has
// them.
type Tree struct {
	Manifests int // each with a source of its own
	Images    int // of a manifest
	Digests   int // of an image, each with a tag
	Regions   int // that everything goes to
}

// Write writes the manifests. The digests are those of nothing.
func (t Tree) Write(dir string) error {
	for m := range t.Manifests {
		project := fmt.Sprintf("project-%05d", m)
		if err := t.manifest(filepath.Join(dir, "manifests", project), project); err != nil {
			return err
		}
		if err := t.images(filepath.Join(dir, "images", project), project); err != nil {
			return err
		}
	}
	return nil
}

func (t Tree) manifest(dir, project string) error {
	return write(dir, "promoter-manifest.yaml", func(w *bufio.Writer) {
		fmt.Fprintf(w, "registries:\n- {name: staging.example.test/%s, src: true}\n", project)
		for r := range t.Regions {
			fmt.Fprintf(w, "- {name: region-%02d.example.test/images/%s, service-account: promoter@example.test}\n", r, project)
		}
	})
}

func (t Tree) images(dir, project string) error {
	return write(dir, "images.yaml", func(w *bufio.Writer) {
		for i := range t.Images {
			fmt.Fprintf(w, "- name: image-%03d\n  dmap:\n", i)
			for d := range t.Digests {
				fmt.Fprintf(w, "    \"sha256:%x\": [\"v1.%d.%d\"]\n", sha256.Sum256(fmt.Appendf(nil, "%s %d %d", project, i, d)), d/10, d%10)
			}
		}
	})
}

func write(dir, name string, content func(*bufio.Writer)) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	content(w)
	return errors.Join(w.Flush(), f.Close())
}
