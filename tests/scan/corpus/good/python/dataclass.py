from dataclasses import dataclass

@dataclass
class Point:
    x: int
    y: int

    def move(self, dx, dy):
        return Point(self.x + dx, self.y + dy)

print(Point(1, 2).move(3, 4))
