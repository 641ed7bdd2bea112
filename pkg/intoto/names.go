package intoto

import "sync"

// few is how many subjects are looked through one after another.
const few = 32

// names finds subjects by their names, from the first time that somebody asks:
// whoever asks for each of a hundred thousand shall not look through all.
type names struct {
	once   sync.Once
	places map[string][]int
}

// of are the places of the subjects of a name.
func (n *names) of(subjects []Subject, name string) []int {
	n.once.Do(func() {
		n.places = make(map[string][]int, len(subjects))
		own := make([]int, len(subjects)) // one array for all that are alone
		for i, s := range subjects {
			own[i] = i
			if others := n.places[s.Name]; others != nil {
				n.places[s.Name] = append(others[:len(others):len(others)], i)
				continue
			}
			n.places[s.Name] = own[i : i+1]
		}
	})
	return n.places[name]
}
