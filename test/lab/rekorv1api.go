package lab

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/rekor/pkg/types"
)

// maxRequest bounds what the log reads, and maxQueries what it looks up.
const (
	maxRequest = 8 << 20
	maxQueries = 10
)

// routes is the part of Rekor's REST API that clients use.
func (r *rekorV1) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/log/entries", r.postEntry)
	mux.HandleFunc("GET /api/v1/log/entries", r.getByIndex)
	mux.HandleFunc("GET /api/v1/log/entries/{id}", r.getByID)
	mux.HandleFunc("POST /api/v1/log/entries/retrieve", r.retrieve)
	mux.HandleFunc("POST /api/v1/index/retrieve", r.search)
	mux.HandleFunc("GET /api/v1/log", r.getLog)
	mux.HandleFunc("GET /api/v1/log/proof", r.getProof)
	mux.HandleFunc("GET /api/v1/log/publicKey", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-pem-file")
		_, _ = w.Write(r.pem)
	})
	return mux
}

func (r *rekorV1) postEntry(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequest))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	entry, err := readEntry(raw)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	id, err := r.add(req.Context(), entry)
	var invalid *types.InputValidationError
	switch {
	case errors.Is(err, errKept):
		w.Header().Set("Location", req.URL.Path+"/"+id)
		refuse(w, http.StatusConflict, err)
		return
	case errors.As(err, &invalid):
		refuse(w, http.StatusBadRequest, err)
		return
	case err != nil:
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("ETag", id)
	w.Header().Set("Location", req.URL.Path+"/"+id)
	r.answer(w, http.StatusCreated, leafIn(id), -1)
}

// leafIn returns the leaf of an entry ID, with or without its tree; else what
// no entry has.
func leafIn(id string) string {
	if len(id) == 80 {
		id = id[16:]
	}
	if len(id) != 64 {
		return "none"
	}
	return strings.ToLower(id)
}

func (r *rekorV1) answer(w http.ResponseWriter, status int, leaf string, index int64) {
	entry, err := r.find(leaf, index)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		refuse(w, http.StatusNotFound, err)
	case err != nil:
		refuse(w, http.StatusInternalServerError, err)
	default:
		answerJSON(w, status, entry)
	}
}

func (r *rekorV1) getByID(w http.ResponseWriter, req *http.Request) {
	r.answer(w, http.StatusOK, leafIn(req.PathValue("id")), -1)
}

func (r *rekorV1) getByIndex(w http.ResponseWriter, req *http.Request) {
	index, err := strconv.ParseInt(req.URL.Query().Get("logIndex"), 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	r.answer(w, http.StatusOK, "", index)
}

// retrieve finds entries by ID, by place, or by being equivalent to one that
// the client proposes.
func (r *rekorV1) retrieve(w http.ResponseWriter, req *http.Request) {
	var q struct {
		IDs     []string          `json:"entryUUIDs"`
		Indexes []int64           `json:"logIndexes"`
		Entries []json.RawMessage `json:"entries"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxRequest)).Decode(&q); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if n := len(q.IDs) + len(q.Indexes) + len(q.Entries); n > maxQueries {
		refuse(w, http.StatusUnprocessableEntity, errors.New("too many queries"))
		return
	}
	for _, raw := range q.Entries {
		entry, err := readEntry(raw)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		body, err := types.CanonicalizeEntry(req.Context(), entry)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		q.IDs = append(q.IDs, leafOf(body))
	}
	found := []models.LogEntry{}
	for _, id := range q.IDs {
		if entry, err := r.find(leafIn(id), -1); err == nil {
			found = append(found, entry)
		}
	}
	for _, index := range q.Indexes {
		if entry, err := r.find("", index); err == nil {
			found = append(found, entry)
		}
	}
	answerJSON(w, http.StatusOK, found)
}

// search finds the IDs of entries by the digest of what was signed, or by the
// signer's e-mail address.
func (r *rekorV1) search(w http.ResponseWriter, req *http.Request) {
	var q struct{ Hash, Email string }
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxRequest)).Decode(&q); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	key := strings.ToLower(q.Hash)
	if key == "" {
		key = strings.ToLower(q.Email)
	} else if !strings.Contains(key, ":") {
		key = "sha256:" + key
	}
	r.mu.Lock()
	ids := append([]string{}, r.keys[key]...)
	r.mu.Unlock()
	answerJSON(w, http.StatusOK, ids)
}

func (r *rekorV1) getLog(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var info models.LogInfo
	for i, t := range r.trees() {
		checkpoint, err := r.checkpoint(i)
		if err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		root, size, tree := hex.EncodeToString(t.Hash()), int64(t.Size()), strconv.FormatInt(rekorV1Tree+int64(i), 10)
		if i < len(r.old) {
			info.InactiveShards = append(info.InactiveShards, &models.InactiveShardLogInfo{RootHash: &root, TreeSize: &size, SignedTreeHead: &checkpoint, TreeID: &tree})
			continue
		}
		info.RootHash, info.TreeSize, info.SignedTreeHead, info.TreeID = &root, &size, &checkpoint, &tree
	}
	answerJSON(w, http.StatusOK, info)
}

// getProof proves that a shard extends what it was before.
func (r *rekorV1) getProof(w http.ResponseWriter, req *http.Request) {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(req.URL.Query().Get(name), 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all, shard := r.trees(), number("treeID")-rekorV1Tree
	first, last := number("firstSize"), number("lastSize")
	if shard < 0 || shard >= int64(len(all)) || first < 1 || last < first || last > int64(all[shard].Size()) {
		refuse(w, http.StatusBadRequest, errors.New("no such sizes or tree"))
		return
	}
	path, err := all[shard].ConsistencyProof(uint64(first), uint64(last))
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	root := hex.EncodeToString(all[shard].HashAt(uint64(last)))
	answerJSON(w, http.StatusOK, models.ConsistencyProof{RootHash: &root, Hashes: texts(path)})
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, err error) {
	answerJSON(w, status, models.Error{Code: int64(status), Message: err.Error()})
}
