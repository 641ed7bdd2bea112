package verdict

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Feature is a requirement of the policy that can be switched on and off, and how it
// counted for a verdict.
type Feature struct {
	// Name is NAMESPACE/NAME.
	Name string `json:"name"`
	// State is Off, TurningOn, On or TurningOff, since the transition Number.
	State  string `json:"state"`
	Number int    `json:"number"`
	// Mode is off, warn or require. It follows from the state, and from the minimum
	// that the policy sets.
	Mode string `json:"mode"`
}

// String prints the feature for people.
func (f Feature) String() string {
	text := f.Name + " is " + f.State
	if f.Number > 0 {
		text += fmt.Sprintf(" since transition %d", f.Number)
	}
	return text + "; here it counts as " + f.Mode
}

// inForce is the digested form of a policy and of the modes of its features.
type inForce struct {
	Policy   digest.Digest `json:"policy"`
	Features []Feature     `json:"features"`
}

// InForce names what was judged by: the policy, if everything that it asks was
// required, and else the policy together with what was not. Who pinned a policy
// does not take that for it.
func InForce(policy digest.Digest, features []Feature) digest.Digest {
	all := inForce{Policy: policy}
	for _, f := range features {
		if f.Mode != "require" {
			all.Features = append(all.Features, f)
		}
	}
	if len(all.Features) == 0 {
		return policy
	}
	slices.SortFunc(all.Features, compareFeatures)
	raw, err := json.Marshal(all)
	if err != nil {
		panic("verdict: " + err.Error()) // no field of it can fail
	}
	return digest.Of(digest.SHA256, raw)
}

// AddFeatures records features with their modes, each once.
func (v *Verdict) AddFeatures(features ...Feature) {
	for _, f := range features {
		if at, there := slices.BinarySearchFunc(v.Features, f, compareFeatures); !there {
			v.Features = slices.Insert(slices.Clip(v.Features), at, f)
		}
	}
}

func compareFeatures(a, b Feature) int {
	if order := strings.Compare(a.Name, b.Name); order != 0 {
		return order
	}
	if a.Number != b.Number {
		return a.Number - b.Number
	}
	return strings.Compare(a.State+" "+a.Mode, b.State+" "+b.Mode)
}
