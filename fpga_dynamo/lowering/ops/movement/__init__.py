"""Operators that only move elements."""
