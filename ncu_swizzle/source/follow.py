"""Follow a shared array through a file: its subscripts, and every pointer, parameter and address made from it."""

from __future__ import annotations

from ncu_swizzle.source.arrays import SharedDeclaration
from ncu_swizzle.source.expressions import PointerState
from ncu_swizzle.source.reach import ReachedPlace, Web
from ncu_swizzle.source.scopes import Scopes
from ncu_swizzle.source.views import ViewWalk


def follow(scopes: Scopes, declaration: SharedDeclaration, every: tuple[SharedDeclaration, ...]) -> Web:
    """Return everything that reaches into an array, with the other arrays that the same pointers reach into."""
    return _Follower(scopes, every).web_of(declaration)


class _Follower(ViewWalk):
    """Follows one array, and those that the same pointers reach into."""

    def web_of(self, declaration: SharedDeclaration) -> Web:
        self._add_array(declaration)
        while self.waiting:
            place = self.waiting.pop()
            for use in self.uses.get(place.declared.id, []):
                self._follow(use, PointerState(place, place.rank, place.unit))
            self._others_into(place)
        self._mentioned()
        return self.web

    def _add_array(self, declaration: SharedDeclaration) -> None:
        if declaration.declared.id not in self.web.places:
            place = self._add(ReachedPlace(declaration.name, declaration.declared, declaration.rank, array=True))
            self._is_object(place, declaration.element)

    def _others_into(self, place: ReachedPlace) -> None:
        """Add the other arrays that one of a web's names is made from: they share its mapping."""
        if place.array:
            return
        for declaration in self.arrays.values():
            if declaration.declared.id in self.web.places:
                continue
            alone = _Follower.__new__(_Follower)
            alone.__dict__ = dict(self.__dict__)
            alone._start()
            alone._add_array(declaration)
            while alone.waiting:
                other = alone.waiting.pop()
                for use in alone.uses.get(other.declared.id, []):
                    alone._follow(use, PointerState(other, other.rank, other.unit))
            if place.declared.id in alone.web.places:
                self._add_array(declaration)
