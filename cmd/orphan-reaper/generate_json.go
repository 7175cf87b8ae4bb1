//go:build generate

package main

import (
	"encoding"
	"encoding/json"
	"go/doc/comment"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/judge"
)

// object is one object in the JSON of a status.
type object struct {
	Name   string
	Doc    *comment.Doc
	Fields []jsonField
}

type jsonField struct {
	Name, Type string
	Optional   bool
	Doc        *comment.Doc
}

// objects returns the object of a type, and those in it.
func (c comments) objects(t reflect.Type) (all []object) {
	todo := []reflect.Type{t}
	for i := 0; i < len(todo); i++ {
		o := object{Name: todo[i].Name(), Doc: c.of(todo[i], "")}
		o.Fields = c.fields(todo[i], func(t reflect.Type) {
			if !slices.Contains(todo, t) {
				todo = append(todo, t)
			}
		})
		all = append(all, o)
	}
	return all
}

// fields returns the fields as encoding/json writes them. It calls use for each type of object.
func (c comments) fields(t reflect.Type, use func(reflect.Type)) (all []jsonField) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			all = append(all, c.fields(f.Type, use)...)
		case name != "-" && f.IsExported():
			all = append(all, jsonField{name, typeName(f.Type, use), options != "", c.of(t, f.Name)})
		}
	}
	return all
}

// typeName returns the type of a value in JSON.
func typeName(t reflect.Type, use func(reflect.Type)) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time (RFC 3339)"
	case t == reflect.TypeFor[time.Duration]():
		return "nanoseconds"
	case t == reflect.TypeFor[judge.Facts]():
		return "object of " + typeName(reflect.TypeFor[judge.Fact](), use)
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()), t.Implements(reflect.TypeFor[json.Marshaler]()):
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem(), use)
	case reflect.Slice, reflect.Array:
		return "list of " + typeName(t.Elem(), use)
	case reflect.Map:
		return "object of " + typeName(t.Elem(), use)
	case reflect.Struct:
		use(t)
		return "[" + t.Name() + "](#" + strings.ToLower(t.Name()) + ")"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "true or false"
	default:
		return "number"
	}
}
