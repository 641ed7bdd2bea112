package promotionplan

import (
	"cmp"
	"iter"
	"slices"

	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Store is a place of files and its destinations. All end with a slash.
type Store struct {
	Manifest     string   `json:"manifest"`
	Source       string   `json:"source"`
	Destinations []string `json:"destinations"`
}

// File is one file of a store.
type File struct {
	Store  int           `json:"store"` // index into [Plan.Stores]
	Name   string        `json:"name"`
	Digest digest.Digest `json:"digest"`
	// Size is zero if no manifest gives it.
	Size int64 `json:"size,omitempty"`
}

// FileMove is one file to one destination.
type FileMove struct {
	From, To string // places
	Name     string
	Digest   digest.Digest
	Size     int64 // 0 if unknown
}

// MakeFiles makes the plan of manifests of files.
func MakeFiles(manifests []promoterfile.FileManifest) (Plan, error) {
	p := Plan{Schema: Schema, Routes: []Route{}, Edges: []Edge{}}
	sorted := slices.SortedFunc(slices.Values(manifests), func(a, b promoterfile.FileManifest) int {
		return cmp.Or(cmp.Compare(a.Source.Name, b.Source.Name), cmp.Compare(a.Name, b.Name))
	})
	for i, m := range sorted {
		s := Store{Manifest: m.Name, Source: m.Source.Name}
		for _, d := range m.Destinations {
			s.Destinations = append(s.Destinations, d.Name)
		}
		slices.Sort(s.Destinations)
		p.Stores = append(p.Stores, s)
		for _, f := range m.Files {
			p.Files = append(p.Files, File{Store: i, Name: f.Name, Digest: f.Digest})
		}
	}
	if len(p.Files) == 0 {
		return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "the manifests list no files")
	}
	if err := p.check(); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// AllFiles iterates over every file that moves, destination by destination.
func (p Plan) AllFiles() iter.Seq[FileMove] {
	return func(yield func(FileMove) bool) {
		for _, f := range p.Files {
			s := p.Stores[f.Store]
			for _, to := range s.Destinations {
				if !yield(FileMove{From: s.Source, To: to, Name: f.Name, Digest: f.Digest, Size: f.Size}) {
					return
				}
			}
		}
	}
}
