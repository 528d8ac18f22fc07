def invariants(): return []
