package memdynamo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Server is an http.RoundTripper that answers requests in the place of DynamoDB, one at a time. The
// zero value has no tables, and can be used.
//
// It answers what Tables.Apply answers, and the requests that set up tables: CreateTable,
// DescribeTable, UpdateTimeToLive and DescribeTimeToLive. It deletes nothing whose time to live is
// over.
type Server struct {
	Clock func() time.Time // of the Date of answers. Nil: time.Now

	mu     sync.Mutex
	tables Tables
	ttl    map[string]string // the attribute, by table
}

// Tables returns the present content.
func (s *Server) Tables() Tables {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables
}

// Set replaces the content.
func (s *Server) Set(t Tables) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables = t
}

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	status, answer := s.answer(op, body)
	clock := s.Clock
	if clock == nil {
		clock = time.Now
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{
			"Date":         {clock().UTC().Format(http.TimeFormat)},
			"Content-Type": {"application/x-amz-json-1.0"},
		},
		Body:          io.NopCloser(bytes.NewReader(answer)),
		ContentLength: int64(len(answer)),
	}, nil
}

func (s *Server) answer(op string, body []byte) (status int, answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch op {
	case "CreateTable", "DescribeTable", "UpdateTimeToLive", "DescribeTimeToLive":
		answer, err = s.setUp(op, body)
	default:
		s.tables, status, answer = s.tables.Apply(op, body)
		return status, answer
	}
	if err != nil {
		return 400, failed(err)
	}
	return 200, answer
}

func (s *Server) setUp(op string, body []byte) ([]byte, error) {
	var in struct {
		TableName               string
		KeySchema               []element
		AttributeDefinitions    []element
		TimeToLiveSpecification struct{ AttributeName string }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	t := s.tables.table(in.TableName)
	if op == "CreateTable" {
		if t != nil {
			return nil, &failure{
				code:    "ResourceInUseException",
				message: "Table already exists: " + in.TableName,
			}
		}
		var err error
		if t, err = newTable(in.KeySchema, in.AttributeDefinitions); err != nil {
			return nil, err
		}
		s.tables = s.tables.with(in.TableName, t)
	}
	if t == nil {
		return nil, missing(in.TableName)
	}
	description := map[string]any{"TableName": in.TableName, "TableStatus": "ACTIVE"}
	switch op {
	case "CreateTable":
		return json.Marshal(map[string]any{"TableDescription": description})
	case "DescribeTable":
		return json.Marshal(map[string]any{"Table": description})
	case "UpdateTimeToLive":
		if s.ttl == nil {
			s.ttl = map[string]string{}
		}
		s.ttl[in.TableName] = in.TimeToLiveSpecification.AttributeName
		return json.Marshal(map[string]any{"TimeToLiveSpecification": map[string]any{
			"AttributeName": s.ttl[in.TableName], "Enabled": true,
		}})
	}
	ttl := map[string]any{"TimeToLiveStatus": "DISABLED"}
	if name := s.ttl[in.TableName]; name != "" {
		ttl = map[string]any{"TimeToLiveStatus": "ENABLED", "AttributeName": name}
	}
	return json.Marshal(map[string]any{"TimeToLiveDescription": ttl})
}

// element is one of a KeySchema or of AttributeDefinitions.
type element struct{ AttributeName, KeyType, AttributeType string }

func newTable(schema, attributes []element) (*table, error) {
	keys := make([]string, len(schema))
	for i, k := range schema {
		keys[i] = k.AttributeName
		if i > 1 || k.KeyType != []string{"HASH", "RANGE"}[i] {
			return nil, unmodelled("this KeySchema")
		}
	}
	for _, a := range attributes {
		if a.AttributeType != "S" {
			return nil, unmodelled("a key of type %s", a.AttributeType)
		}
	}
	return &table{keys: keys}, nil
}
