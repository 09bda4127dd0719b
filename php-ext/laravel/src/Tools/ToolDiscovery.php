<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Pillion\AsTool;
use Pillion\ToolInterface;
use ReflectionClass;
use ReflectionMethod;
use Symfony\Component\Finder\Finder;

/** Finds the tool classes of an application. */
final class ToolDiscovery
{
    /**
     * @param array<string, string> $folders namespaces by path; a missing path is ignored
     *
     * @return list<class-string> sorted by file name
     */
    public function find(array $folders): array
    {
        $classes = [];
        foreach ($folders as $path => $namespace) {
            if (!is_dir($path)) {
                continue;
            }
            foreach (Finder::create()->files()->name('*.php')->in($path)->sortByName() as $file) {
                $relativePath = substr($file->getRelativePathname(), 0, -strlen('.php'));
                $class = rtrim($namespace, '\\') . '\\' . strtr($relativePath, '/', '\\');
                if (self::isTool($class)) {
                    $classes[] = $class;
                }
            }
        }
        return array_values(array_unique($classes));
    }

    public static function isTool(string $class): bool
    {
        if (!class_exists($class)) {
            return false;
        }
        $reflection = new ReflectionClass($class);
        return $reflection->isInstantiable()
            && ($reflection->implementsInterface(ToolInterface::class) || self::hasAttribute($reflection));
    }

    /** @param ReflectionClass<object> $class */
    private static function hasAttribute(ReflectionClass $class): bool
    {
        if ($class->getAttributes(AsTool::class) !== []) {
            return true;
        }
        foreach ($class->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
            if ($method->getAttributes(AsTool::class) !== []) {
                return true;
            }
        }
        return false;
    }
}
